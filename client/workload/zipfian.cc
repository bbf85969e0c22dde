#include "client/workload/zipfian.h"

#include <algorithm>
#include <cmath>

namespace lodgekv::workload {
namespace {

constexpr double kTail = 1 - kZipfianConstant;

double Density(double x) { return std::pow(x, -kZipfianConstant); }

// Of the density, from 1 to x.
double Integral(double x) { return std::expm1(kTail * std::log(x)) / kTail; }

double InverseIntegral(double area) { return std::exp(std::log1p(kTail * area) / kTail); }

}  // namespace

Zipfian::Zipfian(uint64_t count)
    : count_(count),
      low_(Integral(1.5) - Density(1)),
      high_(Integral(static_cast<double>(count) + 0.5)) {}

// A point below the density is drawn, and kept if it is also below the steps, one for each rank,
// that have its height there.
uint64_t Zipfian::Draw(Random& random) const {
  while (true) {
    const double uniform = static_cast<double>(random.Next() >> 11) * 0x1p-53;
    const double area = high_ + uniform * (low_ - high_);
    const double x = InverseIntegral(area);
    const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(std::llround(x)), 1, count_);
    const auto middle = static_cast<double>(rank);
    if (area >= Integral(middle + 0.5) - Density(middle)) return rank;
  }
}

}  // namespace lodgekv::workload
