#include "server/poller.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "index/cost.h"
#include "server/cost_share.h"
#include "server/kv_calls.h"
#include "server/status_map.h"

namespace lodgekv::server {
namespace {

// Events taken in one turn before the engine is called: bounds how long the first of them waits.
constexpr int kEventsPerTurn = 256;
// Calls of one method that wait for clients on one queue: what arrives in a burst is taken at once.
constexpr int kListeners = 32;
// A call object that held more than this is not used again: its buffers would stay that large.
constexpr uint64_t kReusableBytes = 64 * kKiB;
constexpr size_t kMaxSpareCalls = 256;
constexpr uint64_t kSlowLinesPerSecond = 10;

// Moves up to `most` calls whose deadline has not passed from `queue` to `group`; the others are
// answered.
template <class AnyCall>
void TakeGroup(std::deque<AnyCall*>& queue, size_t most, std::vector<AnyCall*>& group) {
  group.clear();
  const auto now = std::chrono::system_clock::now();
  while (!queue.empty() && group.size() < most) {
    AnyCall* call = queue.front();
    queue.pop_front();
    if (call->DeadlinePassed(now)) {
      call->Answer(DeadlinePassed());
    } else {
      group.push_back(call);
    }
  }
}

// In the cost of a group (CostShare in kv.proto).
uint64_t WeightOf(const WriteOp& op, const WriteResult& result) {
  constexpr uint64_t kEach = 64;
  if (result.outcome != Outcome::kOk) return kEach;
  return kEach + op.key.size() + (op.kind == WriteKind::kPut ? op.value.size() : 0);
}

}  // namespace

Poller::Poller(ServerState& state, KvService& service,
               std::unique_ptr<grpc::ServerCompletionQueue> queue, std::vector<Method> methods)
    : state_(state), service_(service), queue_(std::move(queue)), methods_(std::move(methods)) {}

// gRPC wants every queue shut down and emptied, also one that never came into use.
Poller::~Poller() {
  Join();
  if (closed_) return;
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

void Poller::Start() {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "lodgekv-poller");
}

void Poller::RequestStop() {
  stop_alarm_.Set(queue_.get(), gpr_now(GPR_CLOCK_MONOTONIC), stop_event_.Tag());
}

void Poller::Join() {
  if (thread_.joinable()) thread_.join();
}

void Poller::Run() {
  for (const Method method : methods_) {
    for (int i = 0; i < kListeners; ++i) ListenFor(method);
  }
  while (TakeEvents()) {
    ServeReads();
    ServeWrites();
    ServeBatches();
    if (stopping_ && !closed_ && Idle()) {
      closed_ = true;
      queue_->Shutdown();
    }
  }
}

// Waits for an event unless there is work in hand, then takes what else is ready. False: the queue
// is shut down and empty.
bool Poller::TakeEvents() {
  void* tag = nullptr;
  bool ok = false;
  if (Idle()) {
    if (!queue_->Next(&tag, &ok)) return false;
    Dispatch(tag, ok);
  } else {
    now_unix_ms_ = state_.clock().NowUnixMs();
  }
  for (int i = 0; i < kEventsPerTurn; ++i) {
    switch (queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_REALTIME))) {
      case grpc::CompletionQueue::GOT_EVENT: Dispatch(tag, ok); break;
      case grpc::CompletionQueue::TIMEOUT: return true;
      case grpc::CompletionQueue::SHUTDOWN: return false;
    }
  }
  return true;
}

void Poller::Dispatch(void* tag, bool ok) {
  // Read after the event: a request never sees a time before it was sent.
  now_unix_ms_ = state_.clock().NowUnixMs();
  static_cast<Event*>(tag)->OnEvent(ok);
}

void Poller::ServeReads() {
  if (reads_.empty()) return;
  TakeGroup(reads_, state_.config().group_operations, group_getters_);
  if (group_getters_.empty()) return;
  group_keys_.clear();
  for (const GetCall* call : group_getters_) group_keys_.push_back(call->key());
  if (group_reads_.size() < group_keys_.size()) group_reads_.resize(group_keys_.size());
  const auto results = std::span(group_reads_).first(group_keys_.size());
  const Cost before = ThreadCost();
  // Each result has its own outcome.
  (void)state_.store()->engine().Read(group_keys_, results, {.now_unix_ms = now_unix_ms_});
  const Cost cost = ThreadCost() - before;
  CostShares shares(cost, group_getters_.size(), group_getters_.size());
  for (size_t i = 0; i < group_getters_.size(); ++i) {
    group_getters_[i]->AddCost(cost, group_getters_.size(), shares.Next(1));
    group_getters_[i]->AnswerRead(results[i]);
  }
}

void Poller::ServeWrites() {
  if (writes_.empty()) return;
  TakeGroup(writes_, state_.config().group_operations, group_writers_);
  if (group_writers_.empty()) return;
  group_ops_.clear();
  for (const WriteCall* call : group_writers_) group_ops_.push_back(call->op());
  group_writes_.assign(group_ops_.size(), {});
  const Cost before = ThreadCost();
  // Each result has its own outcome.
  (void)state_.store()->engine().Write(
      group_ops_, group_writes_,
      {.atomic = false, .now_unix_ms = now_unix_ms_, .applied_index = std::nullopt});
  const Cost cost = ThreadCost() - before;
  recorder_.RecordGroup(group_ops_.size());
  uint64_t weight = 0;
  for (size_t i = 0; i < group_ops_.size(); ++i)
    weight += WeightOf(group_ops_[i], group_writes_[i]);
  CostShares shares(cost, group_ops_.size(), weight);
  for (size_t i = 0; i < group_writers_.size(); ++i) {
    NoteOutcome(group_writes_[i].outcome);
    CountWrite(group_ops_[i], group_writes_[i]);
    group_writers_[i]->AddCost(cost, group_writers_.size(),
                               shares.Next(WeightOf(group_ops_[i], group_writes_[i])));
    group_writers_[i]->AnswerApplied(group_writes_[i]);
  }
}

void Poller::ServeBatches() {
  if (batches_.empty()) return;
  BatchCall* call = batches_.front();
  batches_.pop_front();
  if (call->DeadlinePassed(std::chrono::system_clock::now())) return call->Answer(DeadlinePassed());
  call->Serve(state_.store()->engine());
}

void Poller::NoteOutcome(Outcome outcome) {
  if (outcome == Outcome::kOk) state_.NoteWriteApplied();
  if (outcome == Outcome::kPoolFull) state_.NotePoolFull();
}

void Poller::CountWrite(const WriteOp& op, const WriteResult& result) {
  const bool is_put = op.kind == WriteKind::kPut;
  if (result.outcome != Outcome::kOk || (!is_put && !result.found)) return;
  recorder_.RecordWrite(op.key.size() + (is_put ? op.value.size() : 0));
}

void Poller::ListenFor(Method method) {
  auto& spare = spare_[static_cast<size_t>(method)];
  std::unique_ptr<Call> call;
  if (spare.empty()) {
    call = MakeCall(method, *this);
  } else {
    call = std::move(spare.back());
    spare.pop_back();
  }
  // From here on the completion queue holds it, as the tag of its next event.
  call.release()->Listen();
}

void Poller::Recycle(Call* call, uint64_t bytes) {
  std::unique_ptr<Call> owned(call);
  auto& spare = spare_[static_cast<size_t>(call->method())];
  if (bytes > kReusableBytes || spare.size() >= kMaxSpareCalls) return;
  spare.push_back(std::move(owned));
}

bool Poller::MayLogSlow(std::chrono::steady_clock::time_point now, uint64_t* suppressed) {
  if (now - slow_window_ >= std::chrono::seconds(1)) {
    slow_window_ = now;
    slow_in_window_ = 0;
  }
  if (++slow_in_window_ > kSlowLinesPerSecond) {
    ++slow_suppressed_;
    return false;
  }
  *suppressed = std::exchange(slow_suppressed_, 0);
  return true;
}

}  // namespace lodgekv::server
