// Zipf's distribution over ranks 1..count: rank k is drawn with a probability proportional to
// k^-0.99, YCSB's constant. By rejection-inversion (Hoermann and Derflinger, 1996), which is exact
// at every rank, takes the same time for every count, and has no sum over all ranks to compute;
// YCSB's own generator is an approximation above the second rank.
#pragma once

#include <cstdint>

#include "client/workload/random.h"

namespace lodgekv::workload {

inline constexpr double kZipfianConstant = 0.99;

class Zipfian {
 public:
  explicit Zipfian(uint64_t count);

  uint64_t Draw(Random& random) const;

 private:
  const uint64_t count_;
  const double low_;   // the integral of the density at the left end of rank 1's part
  const double high_;  // and at the right end of the last rank's
};

}  // namespace lodgekv::workload
