#include "server/poller.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "index/cost.h"
#include "server/cost_share.h"
#include "server/errors.h"
#include "server/kv_calls.h"
#include "server/log.h"
#include "server/scan_call.h"

namespace lodgekv::server {
namespace {

// Events taken in one turn before the engine is called: bounds how long the first of them waits.
constexpr int kEventsPerTurn = 256;
// Calls of one method that wait for clients on one queue: what arrives in a burst is taken at once.
constexpr int kListeners = 32;
constexpr size_t kMaxSpareCalls = 256;
// Pages between two looks at what else is ready: each may take a millisecond.
constexpr int kPagesPerTurn = 4;
// What batches may take of a turn before the engine sees one of them: many are opened when they are
// refused at a glance, one that is large.
constexpr std::chrono::microseconds kOpeningPerTurn{200};
// No share counts batches that are not opened: large ones do not wait for a turn.
constexpr uint64_t kMostUnopenedBytes = 16 * kMiB;
// How late an answer that is not taken may be cancelled, and a page that waits for room be looked
// at: nothing tells this thread of the room that another one made.
constexpr int64_t kOfferedTickMs = 250;
constexpr int64_t kWaitingTickMs = 10;
constexpr std::chrono::milliseconds kTimeoutUnderPressure{1'000};

// The lists of a WorkQueue.
constexpr size_t kOfLittle = 0;  // calls of connections that hold little
constexpr size_t kOfMuch = 1;
constexpr size_t kLaterPages = 2;  // of those

size_t ListOf(const Call& call) { return call.ConnectionHoldsLittle() ? kOfLittle : kOfMuch; }

// Moves up to `most` calls whose deadline has not passed from `queue` to `group`; the others are
// answered.
template <class AnyCall, size_t kLists>
void TakeGroup(WorkQueue<AnyCall, kLists>& queue, size_t most, std::vector<AnyCall*>& group) {
  group.clear();
  const auto now = std::chrono::system_clock::now();
  while (!queue.empty() && group.size() < most) {
    AnyCall* call = queue.Take();
    if (call->DeadlinePassed(now)) {
      call->Answer(DeadlinePassedError());
    } else {
      group.push_back(call);
    }
  }
}

// In the cost of a group (CostShare in kv.proto).
uint64_t WeightOf(const WriteOp& op, const WriteResult& result) {
  constexpr uint64_t kEach = 64;
  return result.outcome == Outcome::kOk ? kEach + BytesOf(op) : kEach;
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
    OpenBatches();
    ServeBatches();
    ServePages();
    CancelUntaken();
    if (stopping_ && !closed_ && Idle() && waiting_pages_.empty()) {
      closed_ = true;
      queue_->Shutdown();
    }
  }
}

// Waits for an event unless there is work in hand, then takes what else is ready. False: the queue
// is shut down and empty.
bool Poller::TakeEvents() {
  if (Idle()) {
    if (!Wait()) return false;
  } else {
    now_unix_ms_ = state_.clock().NowUnixMs();
  }
  void* tag = nullptr;
  bool ok = false;
  for (int i = 0; i < kEventsPerTurn; ++i) {
    switch (queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_REALTIME))) {
      case grpc::CompletionQueue::GOT_EVENT: Dispatch(tag, ok); break;
      case grpc::CompletionQueue::TIMEOUT: return true;
      case grpc::CompletionQueue::SHUTDOWN: return false;
    }
  }
  return true;
}

// For an event, or until there is something to look at without one.
bool Poller::Wait() {
  gpr_timespec until = gpr_inf_future(GPR_CLOCK_MONOTONIC);
  if (!offered_.empty() || !waiting_pages_.empty()) {
    const int64_t tick = waiting_pages_.empty() ? kOfferedTickMs : kWaitingTickMs;
    until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(tick, GPR_TIMESPAN));
  }
  void* tag = nullptr;
  bool ok = false;
  switch (queue_->AsyncNext(&tag, &ok, until)) {
    case grpc::CompletionQueue::GOT_EVENT: Dispatch(tag, ok); return true;
    case grpc::CompletionQueue::TIMEOUT: now_unix_ms_ = state_.clock().NowUnixMs(); return true;
    case grpc::CompletionQueue::SHUTDOWN: return false;
  }
  return false;
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
  group_weights_.clear();
  uint64_t weight = 0;
  for (size_t i = 0; i < group_ops_.size(); ++i) {
    group_weights_.push_back(WeightOf(group_ops_[i], group_writes_[i]));
    weight += group_weights_.back();
  }
  CostShares shares(cost, group_ops_.size(), weight);
  for (size_t i = 0; i < group_writers_.size(); ++i) {
    NoteOutcome(group_writes_[i].outcome);
    CountWrite(group_ops_[i], group_writes_[i]);
    group_writers_[i]->AddCost(cost, group_writers_.size(), shares.Next(group_weights_[i]));
    group_writers_[i]->AnswerApplied(group_writes_[i]);
  }
}

void Poller::OpenBatch() {
  BatchCall* call = unopened_.Take();
  unopened_bytes_ -= call->UnopenedBytes();
  call->Open();
}

// At least one, so that each turn has a batch to serve while there are any.
void Poller::OpenBatches() {
  if (unopened_.empty()) return;
  const auto until = Call::SteadyClock::now() + kOpeningPerTurn;
  do {
    OpenBatch();
  } while (!unopened_.empty() && Call::SteadyClock::now() < until);
}

void Poller::ServeBatches() {
  if (batches_.empty()) return;
  BatchCall* call = batches_.Take();
  if (call->DeadlinePassed(std::chrono::system_clock::now()))
    return call->Answer(DeadlinePassedError());
  call->Serve(state_.store()->engine());
}

void Poller::ServePages() {
  // As many of those that wait for room as are served, so that a turn stays short.
  for (int i = 0; i < kPagesPerTurn && !waiting_pages_.empty(); ++i) {
    pages_.Add(static_cast<ScanCall&>(*waiting_pages_.PopFront()), kLaterPages);
  }
  for (int i = 0; i < kPagesPerTurn && !pages_.empty(); ++i) {
    ScanCall* call = pages_.Take();
    if (!call->ServePage()) waiting_pages_.PushBack(*call);
  }
}

// Under pressure whoever still takes answers keeps its time: its answers wait for each other.
void Poller::CancelUntaken() {
  if (offered_.empty()) return;
  const auto now = Call::SteadyClock::now();
  if (now < look_at_offered_) return;
  look_at_offered_ = now + std::chrono::milliseconds(kOfferedTickMs);
  const std::chrono::milliseconds timeout(state_.config().answer_timeout_ms);
  const bool pressure = state_.admission().UnderPressure(now);
  const auto least = pressure ? std::min(timeout, kTimeoutUnderPressure) : timeout;
  for (Call* call = offered_.first(); call != nullptr && now - call->offered() >= least;) {
    Call* const behind = CallList::Behind(*call);
    if (now - call->offered() >= timeout || call->ConnectionTookNothingSince(now - least)) {
      CancelUntaken(*call, now);
    }
    call = behind;
  }
}

void Poller::CancelUntaken(Call& call, Call::SteadyClock::time_point now) {
  offered_.Remove(call);
  call.Cancel();
  recorder_.RecordUntaken();
  uint64_t left_out = 0;
  if (!untaken_log_.Due(&left_out)) return;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - call.offered());
  Log(LogLevel::kWarning, "a client does not read its answer: the call is cancelled",
      {{"rpc", kMethodNames[static_cast<size_t>(call.method())]},
       {"client", call.connection().name},
       {"waited_ms", static_cast<uint64_t>(waited.count())},
       {"not_logged_before", left_out}});
}

void Poller::Enqueue(GetCall& call) { reads_.Add(call, ListOf(call)); }
void Poller::Enqueue(WriteCall& call) { writes_.Add(call, ListOf(call)); }
void Poller::EnqueueUnopened(BatchCall& call) {
  unopened_bytes_ += call.UnopenedBytes();
  unopened_.Add(call, ListOf(call));
  while (unopened_bytes_ > kMostUnopenedBytes) OpenBatch();
}
void Poller::Enqueue(BatchCall& call) { batches_.Add(call, ListOf(call)); }
void Poller::Enqueue(ScanCall& call) {
  // A scan of a few items is its first page.
  const size_t list = ListOf(call);
  pages_.Add(call, list == kOfMuch && !call.IsFirstPage() ? kLaterPages : list);
}

void Poller::NoteOutcome(Outcome outcome) {
  if (outcome == Outcome::kOk) state_.NoteWriteApplied();
  if (outcome == Outcome::kPoolFull) state_.NotePoolFull();
}

void Poller::CountWrite(const WriteOp& op, const WriteResult& result) {
  const bool is_put = op.kind == WriteKind::kPut;
  if (result.outcome != Outcome::kOk || (!is_put && !result.found)) return;
  recorder_.RecordWrite(BytesOf(op));
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

void Poller::Recycle(Call* call) {
  std::unique_ptr<Call> owned(call);
  auto& spare = spare_[static_cast<size_t>(call->method())];
  if (spare.size() < kMaxSpareCalls) spare.push_back(std::move(owned));
}

}  // namespace lodgekv::server
