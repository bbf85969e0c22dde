// The keys in the stores under test, and the choice of the next operation's key.
//
// Keys have running indices in the order of their insertion; a segment is a run of indices inserted
// by one distribution. Deleted indices are marked. Invariant: PickLive returns only keys that were
// inserted before the last Commit, so that an operation never uses a key whose insert is still
// pending in another thread. Not thread-safe: operations are drawn before they are timed.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/engine_bench/key_numbers.h"
#include "client/workload/random.h"

namespace lodgekv::bench {

class KeySpace {
 public:
  explicit KeySpace(uint64_t seed) : numbers_(KeyNumbers::Full(seed)), random_(seed) {}

  // A key that was never inserted, to be inserted now.
  KeyRef NewKey(Distribution distribution);
  // A live key. kSequential iterates cyclically over the sequentially inserted keys, as long as
  // there are any. Needs live() > 0.
  KeyRef PickLive(Distribution distribution);
  // A key that does not exist and never will.
  KeyRef PickAbsent(Distribution distribution);
  // A live key that is deleted now; each index is taken once. Needs live() > 0.
  KeyRef TakeLive(Distribution distribution);
  // All operations drawn so far have been executed.
  void Commit() { committed_ = size_; }

  uint64_t live() const { return live_; }

 private:
  struct Segment {
    uint64_t first = 0;
    uint64_t count = 0;
    Distribution distribution = Distribution::kUniform;
  };
  enum class Heat : uint8_t { kAny, kHot, kCold };

  const Segment& SegmentOf(uint64_t index) const;
  KeyRef Ref(uint64_t index) const { return {index, SegmentOf(index).distribution, false}; }
  bool IsLive(uint64_t index) const { return !dead_[index]; }
  bool HasHeat(uint64_t index, Heat heat) const;
  Heat DrawHeat(Distribution distribution);
  KeyRef NextSequential();
  // The first live index at or after `from`, cyclically.
  uint64_t NextLive(uint64_t from) const;

  KeyNumbers numbers_;
  workload::Random random_;
  std::vector<Segment> segments_;  // contiguous, ascending
  std::vector<bool> dead_;
  uint64_t size_ = 0;
  uint64_t committed_ = 0;
  uint64_t live_ = 0;
  uint64_t sequential_live_ = 0;
  uint64_t walk_ = 0;  // over sequential keys
  uint64_t absent_walk_ = 0;
  uint64_t take_from_[3] = {0, 0, 0};  // TakeLive, by Heat
};

}  // namespace lodgekv::bench
