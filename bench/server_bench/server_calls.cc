#include "bench/server_bench/server_calls.h"

#include <sys/prctl.h>

#include <algorithm>
#include <string>

#include "bench/server_bench/put_recorder.h"

namespace lodgekv::server_bench {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kForever = UINT64_MAX;

bool Never() { return false; }

}  // namespace

absl::Status ServerCalls::Connect(const LocalAddress& address, unsigned connections, CallKind kind,
                                  size_t least_answer_bytes) {
  // The kernel puts off what this thread waits for by 50 us otherwise.
  prctl(PR_SET_TIMERSLACK, 1);
  for (unsigned i = 0; i < connections; ++i) {
    connections_.push_back(std::make_unique<Http2Connection>());
    absl::Status status = connections_.back()->Open(address, RequestSource::PathOf(kind),
                                                    least_answer_bytes, IsSession(kind));
    if (!status.ok()) return status;
    polled_.push_back({.fd = connections_.back()->fd(), .events = POLLIN, .revents = 0});
  }
  Forget();
  return absl::OkStatus();
}

absl::Status ServerCalls::Run(unsigned in_flight, Request request, absl::FunctionRef<bool()> more) {
  absl::Status status = StartCalls(in_flight, request);
  while (status.ok() && open_ > 0) {
    Await(kForever);
    status = ReceiveAll(request, more);
  }
  return status;
}

absl::Status ServerCalls::Run(workload::ArrivalSchedule schedule, Request request) {
  absl::Status status;
  while (status.ok() && (open_ > 0 || !schedule.IsOver())) {
    status = CallDue(schedule, request);
    if (!status.ok()) break;
    Await(schedule.IsOver() ? kForever : schedule.next_ns());
    status = ReceiveAll(request, Never);
  }
  return status;
}

absl::Status ServerCalls::RunUntil(uint64_t end_ns, unsigned in_flight, Request request) {
  absl::Status status = StartCalls(in_flight, request);
  while (status.ok() && NowNs() < end_ns) {
    Await(end_ns);
    status = ReceiveAll(request, [] { return true; });
  }
  return status;
}

uint64_t ServerCalls::answer_bytes() const {
  uint64_t bytes = 0;
  for (const auto& connection : connections_) bytes += connection->answer_bytes();
  return bytes;
}

absl::Status ServerCalls::StartCalls(unsigned in_flight, Request request) {
  for (; open_ < in_flight; ++open_) {
    connections_[open_ % connections_.size()]->Call(request(), NowNs());
  }
  return SendAll();
}

absl::Status ServerCalls::SendAll() {
  for (auto& connection : connections_) {
    if (absl::Status status = connection->Send(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ServerCalls::CallDue(workload::ArrivalSchedule& schedule, Request request) {
  // Of this moment: if requests cannot be made as fast as they are due, answers are still received.
  const uint64_t now = NowNs();
  if (!schedule.IsDue(now)) return absl::OkStatus();
  for (; schedule.IsDue(now); schedule.Take(), ++open_) {
    connections_[turn_++ % connections_.size()]->Call(request(), schedule.next_ns());
  }
  return SendAll();
}

void ServerCalls::Await(uint64_t until_ns) {
  timespec wait{};
  if (until_ns != kForever) {
    const uint64_t now = NowNs();
    const uint64_t wait_ns = until_ns - std::min(until_ns, now);
    wait.tv_sec = static_cast<time_t>(wait_ns / kSecondNs);
    wait.tv_nsec = static_cast<long>(wait_ns % kSecondNs);
  }
  ppoll(polled_.data(), polled_.size(), until_ns == kForever ? nullptr : &wait, nullptr);
}

absl::Status ServerCalls::ReceiveAll(Request request, absl::FunctionRef<bool()> more) {
  for (size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i].revents == 0) continue;
    Http2Connection& connection = *connections_[i];
    const auto answers = connection.Receive();
    if (!answers.ok()) return answers.status();
    const uint64_t now = NowNs();
    for (const uint64_t from_ns : *answers) latencies_.Add(now - from_ns);
    open_ -= answers->size();
    calls_by_connection_[i] += answers->size();
    for (size_t n = 0; n < answers->size() && more(); ++n, ++open_) {
      connection.Call(request(), now);
    }
    if (absl::Status status = connection.Send(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace lodgekv::server_bench
