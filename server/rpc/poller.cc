#include "server/rpc/poller.h"

#include <pthread.h>

#include <utility>

namespace lodgekv::server {
namespace {

// Events taken in one round before the engine is called: bounds how long the first of them waits.
constexpr int kEventsPerRound = 256;
// Call objects of one method that listen on one queue, so that a burst of calls is received at
// once.
constexpr int kListeners = 32;
// Short pages between two polls for events.
constexpr int kPagesPerRound = 4;

// For an alarm. Times are rounded up to milliseconds, so that now is up to one of them later.
gpr_timespec AtOnce() { return gpr_inf_past(GPR_CLOCK_MONOTONIC); }

}  // namespace

Poller::Poller(ServerState& state, KvService& service, LongWork long_work,
               std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : state_(state),
      long_work_(long_work),
      queue_(std::move(queue)),
      calls_(service, *queue_),
      batcher_(*this),
      pending_(state, recorder_) {}

// gRPC requires every queue to be shut down and drained, even an unused one.
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

void Poller::RequestDrain() { drain_alarm_.Set(queue_.get(), AtOnce(), drain_event_.Tag()); }

// A session that has nothing to answer may be released at once.
void Poller::OnDrain(bool) {
  const std::vector<SessionCall*> open(sessions_.begin(), sessions_.end());
  for (SessionCall* session : open) session->Drain();
}

void Poller::RequestStop() { stop_alarm_.Set(queue_.get(), AtOnce(), stop_event_.Tag()); }

void Poller::Join() {
  if (thread_.joinable()) thread_.join();
}

void Poller::Run() {
  for (size_t method = 0; method < kMethodCount; ++method) {
    for (int i = 0; i < kListeners; ++i) ListenFor(static_cast<Method>(method));
  }
  for (QueuedService* service : services_) service->Receive(*queue_);
  while (TakeEvents()) {
    Serve();
    if (stopping_ && !closed_ && Idle() && away_ == 0) {
      closed_ = true;
      queue_->Shutdown();
    }
  }
}

void Poller::Serve() {
  batcher_.Serve(now_unix_ms_);
  ServePages();
  pending_.CancelOverdue();
}

void Poller::ServePages() {
  for (int i = 0; i < kPagesPerRound && !pages_.empty(); ++i) {
    PageCall* call = pages_.Take();
    if (call->ReadPage(state_.store()->engine(), now_unix_ms_, stopping_)) call->Deliver();
  }
}

void Poller::Enqueue(WriteCall& call) {
  if (!state_.long_fences() && !call.IsLong()) return batcher_.Add(call);
  ++away_;
  long_work_.writes.Add(call);
}

void Poller::Enqueue(BatchCall& call) {
  const bool write = call.method() == Method::kBatchWrite;
  if (!call.IsLong() && !(write && state_.long_fences())) return batcher_.Add(call);
  ++away_;
  (write ? long_work_.writes : long_work_.reads).Add(call);
}

void Poller::Enqueue(PageCall& call) {
  if (call.IsShort()) return pages_.Add(call, ListOf(call));
  ++away_;
  long_work_.reads.Add(call);
}

void Poller::Enqueue(SessionTurn& turn, bool is_long) {
  const bool waits = turn.writes() && state_.long_fences();
  if (!is_long && !waits) return batcher_.Add(turn);
  ++away_;
  (turn.writes() ? long_work_.writes : long_work_.reads).Add(turn);
}

void Poller::EnqueueLong(ReadCall& call) {
  ++away_;
  long_work_.reads.Add(call);
}

void Poller::EnqueueRest(BatchCall& call) {
  ++away_;
  long_work_.reads.Add(call);
}

void Poller::GiveBack(Work& work) {
  const std::lock_guard lock(back_mutex_);
  back_.PushBack(work);
  if (back_coming_) return;
  back_coming_ = true;
  back_alarm_.Set(queue_.get(), AtOnce(), back_event_.Tag());
}

// From WorkThreads.
void Poller::OnBack(bool) {
  CallList<Work> back;
  {
    const std::lock_guard lock(back_mutex_);
    std::swap(back, back_);
    back_coming_ = false;
  }
  while (!back.empty()) {
    --away_;
    back.PopFront()->Deliver();
  }
}

// Waits for an event unless work is queued, then takes all that are ready. False: the queue is shut
// down and empty.
bool Poller::TakeEvents() {
  if (Idle()) {
    if (!Wait()) return false;
  } else {
    now_unix_ms_ = state_.clock().NowUnixMs();
  }
  void* tag = nullptr;
  bool ok = false;
  for (int i = 0; i < kEventsPerRound; ++i) {
    switch (queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_REALTIME))) {
      case grpc::CompletionQueue::GOT_EVENT: Dispatch(tag, ok); break;
      case grpc::CompletionQueue::TIMEOUT: return true;
      case grpc::CompletionQueue::SHUTDOWN: return false;
    }
  }
  return true;
}

// Waits for an event, or until a periodic check is due.
bool Poller::Wait() {
  gpr_timespec until = gpr_inf_future(GPR_CLOCK_MONOTONIC);
  if (!pending_.empty()) {
    until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                         gpr_time_from_millis(PendingAnswers::kTickMs, GPR_TIMESPAN));
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

void Poller::NoteServed(const ServedCall& call) {
  recorder_.Record(call.method, call.code, call.latency_ns);
  recorder_.RecordCost(call.method, call.share);
  slow_log_.Note(call, state_.config().slow_request_ms);
}

}  // namespace lodgekv::server
