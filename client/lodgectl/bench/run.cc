#include "client/lodgectl/bench/run.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/lodgectl/bench/lane.h"
#include "client/lodgectl/bench/pace.h"

namespace lodgekv::lodgectl {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr int kLongestWaitMs = 50;
constexpr char kClearLine[] = "\r\x1b[K";

using Lanes = std::vector<std::unique_ptr<BenchLane>>;

// The line of a terminal on stderr.
class LiveLine {
 public:
  LiveLine(const Lanes& lanes, uint64_t begin_ns) : lanes_(lanes), begin_ns_(begin_ns) {}
  ~LiveLine() {
    if (visible_) std::fputs(kClearLine, stderr);
  }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  // Once a second.
  void Draw() {
    if (!visible_) return;
    uint64_t operations = 0;
    uint64_t errors = 0;
    for (const auto& lane : lanes_) {
      operations += lane->tally().live().operations;
      errors += lane->tally().live().errors;
    }
    const uint64_t now = NowNs();
    const double since = static_cast<double>(now - last_ns_) / kSecondNs;
    absl::FPrintF(stderr, "%s%4d s  %.0f operations/s  %d in all  %d errors", kClearLine,
                  (now - begin_ns_) / kSecondNs,
                  static_cast<double>(operations - last_operations_) / since, operations, errors);
    last_operations_ = operations;
    last_ns_ = now;
  }

 private:
  const Lanes& lanes_;
  const uint64_t begin_ns_;
  const bool visible_ = isatty(STDERR_FILENO) == 1;
  uint64_t last_operations_ = 0;
  uint64_t last_ns_ = begin_ns_;
};

absl::StatusOr<Lanes> ConnectLanes(const BenchPlan& plan, const client::ClientOptions& client,
                                   workload::InsertSequence& inserts) {
  const auto make = plan.calls == BenchCalls::kSession ? MakeSessionLane : MakeCallLane;
  Lanes lanes;
  for (uint64_t i = 0; i < plan.threads; ++i) {
    lanes.push_back(make({plan, ShareOf(plan, i), client, inserts}));
    if (absl::Status status = lanes.back()->Connect(); !status.ok()) return status;
  }
  return lanes;
}

// True: a signal has arrived.
bool AwaitSignal(const Interruption& interruption, int milliseconds) {
  pollfd signal{.fd = interruption.fd(), .events = POLLIN, .revents = 0};
  (void)poll(&signal, 1, milliseconds);
  return interruption.signal() != 0;
}

// Until all lanes are done. A signal also cuts short the wait for the last answers.
void Watch(const Interruption& interruption, BenchSpan& span, const std::atomic<uint64_t>& running,
           LiveLine& line) {
  uint64_t next_line = span.begin_ns + kSecondNs;
  while (running > 0) {
    if (span.was_cut) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kLongestWaitMs));
    } else if (AwaitSignal(interruption, kLongestWaitMs)) {
      span.Cut();
    }
    if (NowNs() < next_line) continue;
    line.Draw();
    next_line += kSecondNs;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<BenchResult>> RunBench(const BenchPlan& plan,
                                                      const client::ClientOptions& client,
                                                      const Interruption& interruption) {
  workload::InsertSequence inserts(plan.keys);
  absl::StatusOr<Lanes> lanes = ConnectLanes(plan, client, inserts);
  if (!lanes.ok()) return lanes.status();
  BenchSpan span;
  span.begin_ns = NowNs();
  span.end_ns = span.begin_ns + static_cast<uint64_t>(absl::ToInt64Nanoseconds(plan.duration));
  {
    LiveLine line(*lanes, span.begin_ns);
    std::atomic<uint64_t> running = lanes->size();
    std::vector<std::jthread> threads;
    for (const auto& lane : *lanes) {
      threads.emplace_back([&span, &running, &lane] {
        lane->Run(span);
        --running;
      });
    }
    Watch(interruption, span, running, line);
  }
  auto result = std::make_unique<BenchResult>();
  for (const auto& lane : *lanes) result->tally.Merge(lane->tally());
  const uint64_t last = std::max<uint64_t>(result->tally.last_ns(), span.end_ns);
  result->seconds = static_cast<double>(last - span.begin_ns) / kSecondNs;
  result->was_cut = span.was_cut;
  return result;
}

}  // namespace lodgekv::lodgectl
