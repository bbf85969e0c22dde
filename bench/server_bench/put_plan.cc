#include "bench/server_bench/put_plan.h"

#include <algorithm>

namespace lodgekv::server_bench {
namespace {

// Part `index` of `parts` of a whole.
unsigned PartOf(unsigned whole, unsigned parts, unsigned index) {
  return whole / parts + (index < whole % parts ? 1 : 0);
}

}  // namespace

std::vector<PutShare> SharesOf(const PutPlan& plan) {
  const unsigned connections = std::clamp(plan.connections, 1U, plan.in_flight);
  const unsigned threads = std::clamp(plan.threads, 1U, connections);
  std::vector<PutShare> shares;
  for (unsigned i = 0; i < threads; ++i) {
    PutShare share;
    share.in_flight = PartOf(plan.in_flight, threads, i);
    share.connections = PartOf(connections, threads, i);
    share.seed = plan.seed * threads + i;
    shares.push_back(share);
  }
  return shares;
}

}  // namespace lodgekv::server_bench
