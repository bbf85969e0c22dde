#include "bench/engine_bench/run_batch.h"

namespace lodgekv::bench {

void Tally::Merge(const Tally& other) {
  if (failed == 0) first_failure = other.first_failure;
  failed += other.failed;
  found += other.found;
  wrong_values += other.wrong_values;
  items += other.items;
}

}  // namespace lodgekv::bench
