// The workload of a run: steps drawn at random from a mixture over a small set of keys, so that
// keys are put, replaced, deleted and put again, and nodes are split and emptied.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "index/engine.h"
#include "tests/support/engine_case.h"
#include "tests/support/random.h"

namespace lodgekv::test {

// The time passed to every call of a run.
inline constexpr uint64_t kRunNow = 1'000'000;

struct StepOp {
  WriteKind kind = WriteKind::kPut;
  Condition condition = Condition::kNone;
  std::string key;
  std::string value;
  uint64_t if_version = 0;
  uint64_t expiry_unix_ms = 0;
};

// One call of Engine::Write.
struct Step {
  std::vector<StepOp> ops = {};
  bool atomic = false;
  std::optional<uint64_t> applied_index = {};

  std::vector<WriteOp> Ops() const;
  WriteOptions Options() const;
  std::string Describe() const;
};

// Shares of the operations in percent; the rest are puts.
struct Mixture {
  std::string_view name;
  // A key family of tests/support, or "long": keys with a common prefix of 150 bytes and more.
  std::string_view family;
  unsigned keys = 24;
  unsigned deletes = 20;
  unsigned conditions = 10;
  unsigned groups = 10;   // steps of several operations, not atomic
  unsigned batches = 10;  // atomic ones
  unsigned largest_group = 4;
  unsigned largest_value = 8;  // bytes; of `bytes` pools
  unsigned expiries = 0;
  // After so many steps the shares of puts and deletes are swapped, again and again: the tree grows
  // full and is emptied. 0: never.
  unsigned tide = 0;
};

// The version of the key's current value as the caller knows it; 0: none.
using VersionOf = absl::FunctionRef<uint64_t(std::string_view key)>;

class Workload {
 public:
  Workload(const EngineCase& engine_case, const Mixture& mixture);

  Step Next(Random& random, VersionOf version_of);
  // Puts each key once, in the order of the numbers: a quick way to make a large tree.
  Step PutNumber(uint64_t number);
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  StepOp NextOp(Random& random, VersionOf version_of);
  std::string NextValue(Random& random);
  unsigned DeletesNow() const;

  const EngineCase case_;
  const Mixture mixture_;
  std::vector<std::string> keys_;
  uint64_t next_value_ = 1;
  uint64_t applied_index_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace lodgekv::test
