// A log-linear histogram of 64-bit values: exact below 256, above that 128 buckets per doubling, so
// that the error of a percentile is below 0.4 %. Not thread-safe.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lodgekv::workload {

class Histogram {
 public:
  void Add(uint64_t value) {
    ++counts_[BucketOf(value)];
    ++total_;
  }
  void Merge(const Histogram& other);

  // The middle of the bucket with the value at the quantile `fraction` (0..1]; 0 if there are no
  // values.
  double Percentile(double fraction) const;
  uint64_t total() const { return total_; }

 private:
  static constexpr unsigned kSubBits = 7;
  static constexpr uint64_t kSubBuckets = uint64_t{1} << kSubBits;
  // Values below 2 * kSubBuckets have a bucket each; each further doubling has kSubBuckets.
  static constexpr size_t kBuckets = (64 - kSubBits + 1) * kSubBuckets;

  static size_t BucketOf(uint64_t value) {
    if (value < 2 * kSubBuckets) return value;
    const unsigned shift = std::bit_width(value) - 1 - kSubBits;
    return shift * kSubBuckets + (value >> shift);
  }
  static double MiddleOf(size_t bucket);

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t total_ = 0;
};

}  // namespace lodgekv::workload
