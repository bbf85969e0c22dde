// The mistakes that only several threads make, engine by engine: deterministic schedules must
// notice them. Those that one thread makes are in canaries.h.
#pragma once

#include <span>
#include <string_view>

#include "tests/crash/canaries.h"

namespace lodgekv::test {

// The group of mistakes in recovery's own persist order: they show where recovery is cut in turn,
// or its outcome lived on.
inline constexpr std::string_view kBehindCrash = "behind a crash";

// Empty: the engine is not known here.
std::span<const Canary> ScheduleCanariesOf(std::string_view engine);

}  // namespace lodgekv::test
