// The plan of a run of YCSB.
#pragma once

#include <cstddef>

#include "bench/server_bench/put_plan.h"
#include "client/workload/ycsb_workload.h"

namespace lodgekv::server_bench {

// Ten fields of 100 bytes each, in YCSB.
inline constexpr size_t kYcsbValueBytes = 1'000;

struct YcsbPlan {
  PutPlan phase;  // key_space: records that are loaded before
  workload::YcsbWorkload workload;
  size_t value_bytes = kYcsbValueBytes;
  bool any_answer = false;  // do not check that records are found
};

}  // namespace lodgekv::server_bench
