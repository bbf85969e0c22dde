// The oracle with one mistake, for tests of the tests: a suite that accepts any of these is
// useless.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string_view>

#include "index/engine.h"

namespace lodgekv::test {

enum class Fault : uint8_t {
  kLosesAPut,
  kLosesADelete,
  kReadsAnOldValue,
  kReadsAnAbsentKey,
  kScanSkipsAKey,
  kScanRepeatsAKey,
  kScanIgnoresItsEnd,
  kScanIgnoresItsLimit,
  kReverseScanGoesForward,
  kConditionIsIgnored,
  kFoundIsWrong,
  kVersionIsWrong,
  kVersionRepeats,
  kExpiryIsIgnored,
  kRefusedGroupIsHalfApplied,
  kAppliedIndexIsLost,
  kCountIsOff,
  kCheckFindsAProblem,
};
inline constexpr Fault kLastFault = Fault::kCheckFindsAProblem;

std::string_view FaultName(Fault fault);
std::ostream& operator<<(std::ostream& out, Fault fault);

// Makes the mistake rarely, as real ones are.
std::unique_ptr<Engine> MakeFaultyEngine(KeyFormat key_format, Fault fault);

}  // namespace lodgekv::test
