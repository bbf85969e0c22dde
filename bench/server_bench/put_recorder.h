// Send and answer times of one thread's puts. Puts count from the end of the warm-up, for the
// wanted time or count; longer while fewer than `least_puts` count, so that a slow server has a
// figure as well.
#pragma once

#include <cstdint>
#include <vector>

#include "client/workload/clock.h"
#include "client/workload/histogram.h"

namespace lodgekv::server_bench {

using workload::NowNs;

struct PutSample {
  uint64_t answered_ns = 0;
  uint64_t latency_ns = 0;
};

class PutRecorder {
 public:
  struct Limits {
    uint64_t count_from_ns = 0;
    uint64_t end_ns = 0;
    uint64_t least_puts = 1;
    uint64_t most_puts = UINT64_MAX;
    bool keep_samples = false;
  };
  explicit PutRecorder(const Limits& limits) : limits_(limits) {}

  // Whether to send another put now; counts it.
  bool TakePut(uint64_t now_ns) {
    if (IsOver(now_ns) || sent_ >= limits_.most_puts) return false;
    ++sent_;
    return true;
  }
  void Answered(uint64_t sent_ns, uint64_t now_ns) {
    if (now_ns < limits_.count_from_ns || IsOver(now_ns)) return;
    latencies_.Add(now_ns - sent_ns);
    last_ns_ = now_ns;
    if (limits_.keep_samples) samples_.push_back({now_ns, now_ns - sent_ns});
  }

  const Limits& limits() const { return limits_; }
  const workload::Histogram& latencies() const { return latencies_; }
  uint64_t last_ns() const { return last_ns_; }  // of the answers that count; 0: none
  const std::vector<PutSample>& samples() const { return samples_; }

 private:
  bool IsOver(uint64_t now_ns) const {
    return now_ns >= limits_.end_ns && latencies_.total() >= limits_.least_puts;
  }

  const Limits limits_;
  uint64_t sent_ = 0;
  uint64_t last_ns_ = 0;
  workload::Histogram latencies_;
  std::vector<PutSample> samples_;
};

}  // namespace lodgekv::server_bench
