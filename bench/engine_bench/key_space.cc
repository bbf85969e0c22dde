#include "bench/engine_bench/key_space.h"

#include <algorithm>

namespace lodgekv::bench {
namespace {

constexpr int kTries = 256;

}  // namespace

KeyRef KeySpace::NewKey(Distribution distribution) {
  if (segments_.empty() || segments_.back().distribution != distribution) {
    segments_.push_back({size_, 0, distribution});
  }
  ++segments_.back().count;
  dead_.push_back(false);
  ++live_;
  if (distribution == Distribution::kSequential) ++sequential_live_;
  return {size_++, distribution, false};
}

KeyRef KeySpace::PickLive(Distribution distribution) {
  if (distribution == Distribution::kSequential && sequential_live_ > 0) return NextSequential();
  const Heat heat = DrawHeat(distribution);
  uint64_t index = 0;
  for (int i = 0; i < kTries; ++i) {
    index = random_.Below(committed_);
    if (IsLive(index) && HasHeat(index, heat)) return Ref(index);
  }
  return Ref(NextLive(index));
}

KeyRef KeySpace::PickAbsent(Distribution distribution) {
  if (distribution == Distribution::kSequential) {
    const uint64_t index = absent_walk_;
    absent_walk_ = absent_walk_ + 1 < committed_ ? absent_walk_ + 1 : 0;
    return {index, distribution, true};
  }
  return {random_.Below(std::max<uint64_t>(size_, 1)), distribution, true};
}

KeyRef KeySpace::TakeLive(Distribution distribution) {
  uint64_t index = 0;
  if (distribution == Distribution::kSequential && sequential_live_ > 0) {
    index = NextSequential().index;
  } else {
    const Heat heat = DrawHeat(distribution);
    uint64_t& from = take_from_[static_cast<size_t>(heat)];
    while (from < committed_ && !(IsLive(from) && HasHeat(from, heat))) ++from;
    index = from < committed_ ? from : NextLive(0);
  }
  dead_[index] = true;
  --live_;
  const KeyRef key = Ref(index);
  if (key.distribution == Distribution::kSequential) --sequential_live_;
  return key;
}

const KeySpace::Segment& KeySpace::SegmentOf(uint64_t index) const {
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), index,
      [](uint64_t value, const Segment& segment) { return value < segment.first; });
  return *(after - 1);
}

bool KeySpace::HasHeat(uint64_t index, Heat heat) const {
  if (heat == Heat::kAny) return true;
  const Segment& segment = SegmentOf(index);
  const bool hot =
      segment.distribution == Distribution::kSequential
          ? (index - segment.first) * KeyNumbers::kRanges < segment.count * KeyNumbers::kHotRanges
          : numbers_.IsHot(index, segment.distribution);
  return hot == (heat == Heat::kHot);
}

KeySpace::Heat KeySpace::DrawHeat(Distribution distribution) {
  if (distribution != Distribution::kSkewed) return Heat::kAny;
  return random_.Percent(KeyNumbers::kHotPercent) ? Heat::kHot : Heat::kCold;
}

KeyRef KeySpace::NextSequential() {
  for (;;) {
    if (walk_ >= committed_) walk_ = 0;
    const Segment& segment = SegmentOf(walk_);
    if (segment.distribution != Distribution::kSequential) {
      walk_ = segment.first + segment.count;
    } else if (IsLive(walk_)) {
      return Ref(walk_++);
    } else {
      ++walk_;
    }
  }
}

uint64_t KeySpace::NextLive(uint64_t from) const {
  for (uint64_t index = from;; index = index + 1 < committed_ ? index + 1 : 0) {
    if (IsLive(index)) return index;
  }
}

}  // namespace lodgekv::bench
