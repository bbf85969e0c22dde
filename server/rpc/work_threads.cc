#include "server/rpc/work_threads.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "server/rpc/call_host.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {
namespace {

// Batches refused in one turn. Refusing takes no fence, so the next batch need not wait for a group
// of writes on its account; but a flood of such batches must not keep out the other kinds of work.
constexpr int kRefusalsPerTurn = 8;

// False: the batch has been refused.
bool ServeWhole(BatchCall& call, ServerState& state) {
  if (call.DeadlinePassed(std::chrono::system_clock::now())) {
    call.Fail(DeadlinePassedError());
    return false;
  }
  if (!call.Prepare()) return false;
  call.Serve(state.store()->engine(), state.clock().NowUnixMs(), BatchCall::kAllBytes);
  return true;
}

}  // namespace

WorkThreads::WorkThreads(ServerState& state, const std::string& name, size_t threads, int nice)
    : state_(state) {
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this, nice] {
      (void)::nice(nice);  // of this thread alone, on Linux; giving way needs no privilege
      Run();
    });
    pthread_setname_np(threads_.back().native_handle(), name.c_str());
  }
}

WorkThreads::~WorkThreads() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkThreads::Add(ReadCall& call) {
  {
    const std::lock_guard lock(mutex_);
    reads_.Add(call, ListOf(call));
  }
  wake_.notify_one();
}

void WorkThreads::Add(WriteCall& call) {
  {
    const std::lock_guard lock(mutex_);
    writes_.Add(call, ListOf(call));
  }
  wake_.notify_one();
}

void WorkThreads::Add(BatchCall& call) {
  {
    const std::lock_guard lock(mutex_);
    batches_.Add(call, ListOf(call));
  }
  wake_.notify_one();
}

void WorkThreads::Add(PageCall& call) {
  {
    const std::lock_guard lock(mutex_);
    pages_.Add(call);
  }
  wake_.notify_one();
}

void WorkThreads::Add(SessionTurn& turn) {
  {
    const std::lock_guard lock(mutex_);
    turns_.Add(turn, ListOf(turn));
  }
  wake_.notify_one();
}

void WorkThreads::BeginStop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
}

void WorkThreads::Run() {
  AtHand at_hand{WriteGroup(state_), SessionGroup(state_, recorder_)};
  std::unique_lock lock(mutex_);
  while (true) {
    AwaitWork(lock);
    if (!AnyQueued() && end_) return;
    if (AnyQueued()) DoNext(lock, at_hand);
  }
}

// Returns when there is work, at the end, or when pages that wait for room are due again.
void WorkThreads::AwaitWork(std::unique_lock<std::mutex>& lock) {
  const auto due = [this] { return AnyQueued() || end_; };
  if (pages_.none_waits_for_room())
    return wake_.wait(lock, [&] { return due() || !pages_.none_waits_for_room(); });
  if (!stopping_) wake_.wait_for(lock, PageQueue::kRoomTick, due);
  pages_.RetryWaiting();
}

bool WorkThreads::IsQueued(Kind kind) const {
  switch (kind) {
    case Kind::kRead: return !reads_.empty();
    case Kind::kWrites: return !writes_.empty();
    case Kind::kBatch: return !batches_.empty();
    case Kind::kPage: return !pages_.empty();
    case Kind::kTurns: return !turns_.empty();
  }
  return false;
}

bool WorkThreads::AnyQueued() const {
  return !reads_.empty() || !writes_.empty() || !batches_.empty() || !pages_.empty() ||
         !turns_.empty();
}

// The kinds in turn.
void WorkThreads::DoNext(std::unique_lock<std::mutex>& lock, AtHand& at_hand) {
  constexpr std::array kKinds{Kind::kRead, Kind::kWrites, Kind::kBatch, Kind::kPage, Kind::kTurns};
  while (!IsQueued(kKinds[turn_])) turn_ = (turn_ + 1) % kKinds.size();
  const Kind kind = kKinds[turn_];
  turn_ = (turn_ + 1) % kKinds.size();
  switch (kind) {
    case Kind::kRead: ReadValue(lock); break;
    case Kind::kWrites: ApplyGroup(lock, at_hand.writes); break;
    case Kind::kBatch: ServeBatch(lock); break;
    case Kind::kPage: ReadPage(lock); break;
    case Kind::kTurns: ServeTurns(lock, at_hand.sessions); break;
  }
}

void WorkThreads::ReadValue(std::unique_lock<std::mutex>& lock) {
  ReadCall* call = reads_.Take();
  lock.unlock();
  call->ReadAlone(state_.store()->engine(), state_.clock().NowUnixMs());
  call->GiveBack();
  lock.lock();
}

void WorkThreads::ApplyGroup(std::unique_lock<std::mutex>& lock, WriteGroup& group) {
  group.Take(writes_);
  lock.unlock();
  const uint64_t operations = group.Apply(state_.clock().NowUnixMs());
  if (operations != 0) recorder_.RecordGroup(operations);
  for (WriteCall* call : group.calls()) call->GiveBack();
  lock.lock();
}

// And those before it that are refused.
void WorkThreads::ServeBatch(std::unique_lock<std::mutex>& lock) {
  bool served = false;
  for (int i = 0; i < kRefusalsPerTurn && !served && !batches_.empty(); ++i) {
    BatchCall* call = batches_.Take();
    lock.unlock();
    served = ServeWhole(*call, state_);
    call->GiveBack();
    lock.lock();
  }
}

void WorkThreads::ReadPage(std::unique_lock<std::mutex>& lock) {
  PageCall* call = pages_.Take();
  const bool stopping = stopping_;
  lock.unlock();
  const bool read = call->ReadPage(state_.store()->engine(), state_.clock().NowUnixMs(), stopping);
  if (read) call->GiveBack();
  lock.lock();
  if (!read) pages_.AddWithoutRoom(*call);
}

// As many as share a fence at best.
void WorkThreads::ServeTurns(std::unique_lock<std::mutex>& lock, SessionGroup& group) {
  group.Take(turns_, kGroupOperations.max_value);
  lock.unlock();
  group.Serve(state_.clock().NowUnixMs(),
              state_.long_fences() ? SessionGroup::kFewRounds : SessionGroup::kAllRounds);
  std::vector<SessionTurn*> unfinished;
  for (SessionTurn* turn : group.turns()) {
    if (turn->served()) {
      turn->GiveBack();
    } else {
      unfinished.push_back(turn);
    }
  }
  lock.lock();
  for (SessionTurn* turn : unfinished) turns_.Add(*turn, ListOf(*turn));
}

}  // namespace lodgekv::server
