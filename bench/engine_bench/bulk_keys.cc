#include "bench/engine_bench/bulk_keys.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace lodgekv::bench {
namespace {

constexpr size_t kBatch = 1'000'000;

}  // namespace

BulkKeys::BulkKeys(const KeyWriter& writer, KeyFormat format, uint32_t value_bytes,
                   Distribution distribution, uint64_t keys)
    : writer_(writer), format_(format), distribution_(distribution), value_(value_bytes, 'v') {
  keys_.reserve(keys);
  for (uint64_t i = 0; i < keys; ++i) keys_.emplace_back(writer.OrderOf({i, distribution}), i);
  std::sort(keys_.begin(), keys_.end());
}

BulkSource BulkKeys::Source() {
  return [this](BulkPair* pair) -> absl::StatusOr<bool> { return Next(pair); };
}

BulkKeys::Clock BulkKeys::Clock::Now() {
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  const auto wall = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration<double>(wall).count(),
          static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9};
}

bool BulkKeys::Next(BulkPair* pair) {
  if (!begun_) {
    begun_ = true;
    begin_ = Clock::Now();
    cost_before_ = TotalCost();
  }
  if (next_ == batch_.size()) Prepare();
  if (next_ == batch_.size()) return false;
  const uint64_t word = ValueWord(batch_.numbers[next_], 0);
  std::memcpy(value_.data(), &word, std::min(value_.size(), sizeof(word)));
  pair->value = value_;
  if (format_ == KeyFormat::kFixed64) {
    const uint64_t big_endian = __builtin_bswap64(batch_.numbers[next_]);
    std::memcpy(fixed_key_, &big_endian, sizeof(fixed_key_));
    pair->key = {fixed_key_, sizeof(fixed_key_)};
  } else {
    pair->key = BytesKeys(batch_).Key(next_);
  }
  ++next_;
  return true;
}

void BulkKeys::Prepare() {
  const Clock begin = Clock::Now();
  const size_t count = std::min(kBatch, keys_.size() - prepared_);
  std::vector<KeyRef> refs;
  refs.reserve(count);
  for (size_t i = 0; i < count; ++i) refs.push_back({keys_[prepared_++].second, distribution_});
  writer_.Fill(refs, &batch_);
  next_ = 0;
  const Clock took = Clock::Now() - begin;
  preparing_ = {preparing_.wall + took.wall, preparing_.cpu + took.cpu};
}

void BulkKeys::Finish(PhaseResult* result) const {
  const Clock took = Clock::Now() - begin_ - preparing_;
  result->ops += keys_.size();
  result->seconds += took.wall;
  result->thread_seconds += took.wall;
  result->cpu_seconds += took.cpu;
  result->cost = result->cost + (TotalCost() - cost_before_);
}

}  // namespace lodgekv::bench
