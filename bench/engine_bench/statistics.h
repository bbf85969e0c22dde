// Medians and quartiles of small samples.
#pragma once

#include <vector>

namespace lodgekv::bench {

struct Spread {
  double low = 0;  // first quartile
  double median = 0;
  double high = 0;  // third quartile
};

// Zeros if there are no values.
Spread SpreadOf(std::vector<double> values);

}  // namespace lodgekv::bench
