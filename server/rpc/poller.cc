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

}  // namespace

Poller::Poller(ServerState& state, KvService& service,
               std::unique_ptr<grpc::ServerCompletionQueue> queue, std::vector<Method> methods)
    : state_(state),
      queue_(std::move(queue)),
      methods_(std::move(methods)),
      calls_(service, *queue_),
      batcher_(state, recorder_),
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
  for (QueuedService* service : services_) service->Receive(*queue_);
  while (TakeEvents()) {
    Serve();
    if (stopping_ && !closed_ && Idle() && pages_.none_waits_for_room()) {
      closed_ = true;
      queue_->Shutdown();
    }
  }
}

void Poller::Serve() {
  batcher_.Serve(now_unix_ms_);
  if (!pages_.empty() || !pages_.none_waits_for_room()) {
    pages_.Serve(state_.store()->engine(), stopping_);
  }
  pending_.CancelOverdue();
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
  if (!pending_.empty() || !pages_.none_waits_for_room()) {
    const int64_t tick =
        pages_.none_waits_for_room() ? PendingAnswers::kTickMs : PageQueue::kRoomTickMs;
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

void Poller::NoteServed(const ServedCall& call) {
  recorder_.Record(call.method, call.code, call.latency_ns);
  recorder_.RecordCost(call.method, call.share);
  slow_log_.Note(call, state_.config().slow_request_ms);
}

}  // namespace lodgekv::server
