#include "client/workload/histogram.h"

#include <algorithm>
#include <cmath>

namespace lodgekv::workload {

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  total_ += other.total_;
}

double Histogram::Percentile(double fraction) const {
  if (total_ == 0) return 0;
  const double wanted = std::ceil(fraction * static_cast<double>(total_));
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, total_);
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += counts_[bucket];
    if (seen >= rank) return MiddleOf(bucket);
  }
  return MiddleOf(kBuckets - 1);
}

double Histogram::MiddleOf(size_t bucket) {
  if (bucket < 2 * kSubBuckets) return static_cast<double>(bucket);
  const size_t shift = bucket / kSubBuckets - 1;
  const double low =
      std::ldexp(static_cast<double>(bucket - shift * kSubBuckets), static_cast<int>(shift));
  const double width = std::ldexp(1.0, static_cast<int>(shift));
  return low + (width - 1) / 2;
}

}  // namespace lodgekv::workload
