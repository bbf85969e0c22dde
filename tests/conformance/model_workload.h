// Random operations for the model test: the keys, the operations and the sizes of groups.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index/engine.h"
#include "tests/support/engine_case.h"
#include "tests/support/key_sets.h"
#include "tests/support/random.h"

namespace lodgekv::test {

enum class Pick : uint8_t { kUniform, kSkewed, kAscending, kDescending };

// A kind of load. Percentages are of all writes.
struct Mix {
  std::string_view name;
  Pick pick = Pick::kUniform;
  unsigned deletes = 20;
  unsigned conditions = 20;
  unsigned expiries = 10;
  unsigned atomic_groups = 20;  // percent of groups
  uint64_t keys = 10'000;       // size of the key set
};

std::span<const Mix> Mixes();

// A group of operations that owns its data. Versions are identified by the number of the put that
// made them, since each engine assigns its own: see ModelRunner.
struct WorkGroup {
  std::deque<std::string> bytes;
  std::vector<WriteOp> ops;  // if_version is not set
  std::vector<size_t> keys;  // number of each op's key in the key set
  WriteOptions options;
};

class Workload {
 public:
  Workload(const EngineCase& engine_case, const KeyFamily& family, const Mix& mix, uint64_t stream);

  WorkGroup NextGroup(uint64_t now_unix_ms);
  size_t NextKey();
  const std::string& Key(size_t number) const { return keys_[number]; }
  size_t key_count() const { return keys_.size(); }
  Random& random() { return random_; }

 private:
  size_t NextGroupSize();
  std::string NextValue();
  void SetCondition(WriteOp& op);

  const EngineCase case_;
  const Mix mix_;
  Random random_;
  std::vector<std::string> keys_;
  uint64_t next_in_sequence_ = 0;
  uint64_t next_id_ = 0;
  uint64_t next_applied_index_ = 0;
};

}  // namespace lodgekv::test
