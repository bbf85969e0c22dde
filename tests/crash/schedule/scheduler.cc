#include "tests/crash/schedule/scheduler.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/cost.h"
#include "index/pmem/worker_slot.h"
#include "tests/crash/schedule/strategies.h"

namespace lodgekv::test {
namespace {

// A schedule takes some hundred steps; this many mean that a thread makes no progress.
constexpr uint64_t kMostSteps = 200'000;
// A waiting thread tries again after so many steps of the others, twice as many each time, up to
// this power of two; and when a call of another thread has ended.
constexpr unsigned kLargestPatience = 6;
// A waiting thread may find that it can continue at once: the lock was freed, but its version had
// changed. So a thread tries again this often without progress of others before that counts as a
// deadlock.
constexpr unsigned kTriesAlone = 3;
// Every execution begins at this time.
constexpr int64_t kFirstNs = int64_t{1'000'000'000} * 1'000'000;
constexpr char kDeadlock[] =
    "a deadlock: each thread waits for another, or for one that is not scheduled";

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void AwaitSignal(std::atomic<uint32_t>& signal) {
  while (signal.load(std::memory_order_acquire) == 0) {
    syscall(SYS_futex, &signal, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
  }
  signal.store(0, std::memory_order_relaxed);
}

void Signal(std::atomic<uint32_t>& signal) {
  signal.store(1, std::memory_order_release);
  syscall(SYS_futex, &signal, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// A thread that waits for a lock does nothing but search.
bool IsProgress(PointKind kind) { return kind != PointKind::kSearch; }

}  // namespace

std::string_view PointName(PointKind kind) {
  constexpr std::string_view kNames[] = {"begin",  "wait",        "store", "flush",
                                         "fence",  "crash point", "call",  "mutex",
                                         "search", "epoch",       "record"};
  static_assert(std::size(kNames) == static_cast<size_t>(PointKind::kCount));
  return kNames[static_cast<size_t>(kind)];
}

std::string Scheduler::Run::ToString() const {
  std::string text;
  for (const Switch& change : switches) {
    absl::StrAppendFormat(&text, "%sthread %d from step %d (%s)", text.empty() ? "" : ", ",
                          change.to, change.step, PointName(change.kind));
  }
  return text;
}

struct Scheduler::Thread {
  Scheduler* owner = nullptr;
  unsigned number = 0;
  std::atomic<uint32_t> go{0};
  const std::function<void()>* body = nullptr;
  bool leave = false;
  bool live = false;
  const void* guest_of = nullptr;  // null: of no guest, or of none that lives
  std::function<void()> guest_body;
  bool waiting = false;
  unsigned waits_in_row = 0;
  unsigned waits_for_nothing = 0;
  uint64_t wait_progress = 0;
  uint64_t wait_calls = 0;
  const void* asleep_at = nullptr;  // a condition variable
  bool sleep_ends = false;          // may also be ended by the strategy
  unsigned epoch_depth = 0;
  uint64_t epochs = 0;  // begun
  std::thread thread;

  static inline thread_local Thread* current = nullptr;
  static inline thread_local bool aside = false;

  void Begin() {
    live = true;
    waiting = false;
    asleep_at = nullptr;
    waits_in_row = waits_for_nothing = epoch_depth = 0;
    wait_progress = wait_calls = 0;
  }
};

Scheduler::Scheduler(unsigned threads, unsigned guests) : bodies_(threads) {
  if (threads == 0 || threads + guests > kMaxThreads) throw std::invalid_argument("1 to 4 threads");
  (void)pmem::CurrentWorkerSlot();
  for (unsigned i = 0; i < threads + guests; ++i) {
    Thread& thread = *threads_.emplace_back(std::make_unique<Thread>());
    thread.owner = this;
    thread.number = i;
    thread.thread = std::thread([this, &thread] {
      // One-time initialization of the thread must not be part of any execution.
      (void)pmem::CurrentWorkerSlot();
      (void)ThreadCost();
      Signal(all_ended_);
      Work(thread);
    });
    AwaitSignal(all_ended_);
  }
  if (guests > 0) with_guests.push_back(this);
}

Scheduler::~Scheduler() {
  std::erase(with_guests, this);
  for (auto& thread : threads_) {
    thread->leave = true;
    Signal(thread->go);
    thread->thread.join();
  }
}

void Scheduler::Work(Thread& self) {
  for (;;) {
    Sleep(self);
    if (self.leave) return;
    Thread::current = &self;
    try {
      (*self.body)();
    } catch (const Stuck&) {
    }
    Thread::current = nullptr;
    End(self);
  }
}

const Scheduler::Run& Scheduler::Execute(std::span<const std::function<void()>> bodies,
                                         Strategy& strategy, uint32_t kinds) {
  if (bodies.empty() || bodies.size() > bodies_) {
    throw std::invalid_argument("as many bodies as there are threads, at most");
  }
  run_.switches.clear();
  run_.steps = 0;
  run_.points = {};
  run_.stuck = false;
  for (size_t i = 0; i < bodies.size(); ++i) {
    threads_[i]->body = &bodies[i];
    threads_[i]->Begin();
  }
  kinds_ = kinds;
  Go(strategy);
  return run_;
}

// Until the bodies have ended and the guests sleep.
void Scheduler::Go(Strategy& strategy) {
  strategy_ = &strategy;
  progress_ = calls_ = 0;
  now_ns_ = kFirstNs;
  for (auto& thread : threads_) thread->wait_progress = thread->wait_calls = 0;
  strategy.Begin(static_cast<unsigned>(threads_.size()));
  current_ = strategy.Choose(PointKind::kBegin, 0, Runnable());
  run_.switches.push_back({0, static_cast<uint8_t>(current_), PointKind::kBegin});
  Signal(threads_[current_]->go);
  AwaitSignal(all_ended_);
  strategy_ = nullptr;
}

// --- threads of the program under test ---

void Scheduler::Start(const void* owner, std::function<void()> body) {
  for (size_t i = bodies_; i < threads_.size(); ++i) {
    Thread& guest = *threads_[i];
    if (guest.live) continue;
    guest.guest_of = owner;
    guest.guest_body = std::move(body);
    guest.body = &guest.guest_body;
    guest.Begin();
    return;
  }
  Report("the program starts more threads than the scheduler has places for");
}

void Scheduler::LetRun() {
  if (Current() != nullptr || AllAtRest()) return;
  const Run kept = run_;
  const int64_t now_ns = now_ns_;
  OneAfterTheOther strategy;
  kinds_ = 0;
  Go(strategy);
  run_ = kept;
  now_ns_ = now_ns;
}

void Scheduler::Join(const void* owner) {
  if (Current() == nullptr) LetRun();
  while (GuestOf(owner) != nullptr) {
    if (!Wait()) return Report("a thread that the program waits for does not end");
  }
}

Scheduler::Thread* Scheduler::GuestOf(const void* owner) const {
  for (const auto& thread : threads_) {
    if (thread->live && thread->guest_of == owner) return thread.get();
  }
  return nullptr;
}

void Scheduler::WakeGuestsAt(const void* condition) {
  for (Scheduler* scheduler : with_guests) {
    for (const auto& thread : scheduler->threads_) {
      if (!thread->live || thread->asleep_at != condition) continue;
      thread->asleep_at = nullptr;
      thread->waiting = false;
    }
  }
}

// --- which thread continues ---

uint32_t Scheduler::Runnable() const {
  uint32_t ready = 0;
  uint32_t may_retry = 0;
  uint32_t last_tries = 0;
  for (const auto& thread : threads_) {
    if (!thread->live) continue;
    const bool asleep = thread->asleep_at != nullptr;
    if (asleep && !thread->sleep_ends && !run_.stuck) continue;
    const uint32_t bit = uint32_t{1} << thread->number;
    const uint64_t patience = uint64_t{1} << std::min(thread->waits_in_row, kLargestPatience);
    if (!thread->waiting || run_.stuck || calls_ > thread->wait_calls ||
        progress_ >= thread->wait_progress + patience) {
      ready |= bit;
    }
    if (progress_ > thread->wait_progress || asleep) may_retry |= bit;
    if (thread->waits_for_nothing < kTriesAlone) last_tries |= bit;
  }
  if (ready != 0) return ready;
  return may_retry != 0 ? may_retry : last_tries;
}

void Scheduler::SwitchTo(unsigned next, PointKind kind) {
  Thread& self = *threads_[current_];
  run_.switches.push_back({run_.steps, static_cast<uint8_t>(next), kind});
  current_ = next;
  Signal(threads_[next]->go);
  Sleep(self);
}

void Scheduler::Sleep(Thread& self) { AwaitSignal(self.go); }

void Scheduler::Pass(PointKind kind) {
  Thread& self = *threads_[current_];
  ++run_.points[static_cast<size_t>(kind)];
  if (run_.stuck) throw Stuck("another thread is stuck");
  if (IsProgress(kind)) {
    ++progress_;
    self.waits_in_row = 0;
  }
  if (kind == PointKind::kCall) ++calls_;
  if ((kinds_ & BitOf(kind)) == 0) return;
  if (++run_.steps > kMostSteps) {
    Fail(absl::StrCat("after ", kMostSteps, " steps it has not ended"));
  }
  const unsigned next = strategy_->Choose(kind, current_, Runnable());
  if (next != current_) SwitchTo(next, kind);
}

void Scheduler::WaitForOthers() {
  Thread& self = *threads_[current_];
  self.waits_for_nothing = self.wait_progress == progress_ ? self.waits_for_nothing + 1 : 0;
  GiveWay(self);
}

// Returns when the strategy lets it continue.
void Scheduler::GiveWay(Thread& self) {
  ++run_.points[static_cast<size_t>(PointKind::kWait)];
  if (run_.stuck) throw Stuck("another thread is stuck");
  ++run_.steps;
  self.waiting = true;
  self.wait_progress = progress_;
  self.wait_calls = calls_;
  ++self.waits_in_row;
  if (AllAtRest()) return Rest(self);
  const uint32_t runnable = Runnable();
  if (runnable == 0) {
    self.waiting = false;
    Fail(kDeadlock);
  }
  if (run_.steps > kMostSteps) {
    Fail(absl::StrCat("after ", kMostSteps, " steps it has not ended"));
  }
  const unsigned next = strategy_->Choose(PointKind::kWait, current_, runnable);
  if (next != current_) SwitchTo(next, PointKind::kWait);
  self.waiting = false;
}

// A guest, over the end of the run.
void Scheduler::Rest(Thread& self) {
  Signal(all_ended_);
  Sleep(self);
  self.waiting = false;
}

bool Scheduler::SleepUntilWoken(const void* condition, std::optional<int64_t> end_ns) {
  Thread& self = *threads_[current_];
  self.asleep_at = condition;
  self.sleep_ends = end_ns.has_value();
  GiveWay(self);
  const bool woken = std::exchange(self.asleep_at, nullptr) == nullptr;
  if (run_.stuck) throw Stuck("another thread is stuck");
  if (!woken) now_ns_ = std::max(now_ns_, *end_ns);
  return woken;
}

// The callers of this are functions that must not throw.
void Scheduler::Wake(const void* condition, bool all) {
  if (run_.stuck) return;
  Pass(PointKind::kMutex);
  uint32_t asleep = 0;
  for (const auto& thread : threads_) {
    if (thread->live && thread->asleep_at == condition) asleep |= uint32_t{1} << thread->number;
  }
  if (asleep == 0 || run_.stuck) return;
  if (!all) asleep = uint32_t{1} << strategy_->Choose(PointKind::kMutex, current_, asleep);
  for (const auto& thread : threads_) {
    if ((asleep >> thread->number & 1) == 0) continue;
    thread->asleep_at = nullptr;
    thread->waiting = false;
  }
}

void Scheduler::End(Thread& self) {
  self.live = false;
  ++progress_;
  ++calls_;
  self.guest_of = nullptr;
  if (AllAtRest()) return Signal(all_ended_);
  if (Runnable() == 0) Report(kDeadlock);
  const uint32_t runnable = Runnable();
  const unsigned next = run_.stuck ? static_cast<unsigned>(std::countr_zero(runnable))
                                   : strategy_->Choose(PointKind::kBegin, self.number, runnable);
  run_.switches.push_back({run_.steps, static_cast<uint8_t>(next), PointKind::kBegin});
  current_ = next;
  Signal(threads_[next]->go);
}

// A thread that is stuck does not rest, but is unwound.
bool Scheduler::AllAtRest() const {
  return std::none_of(threads_.begin(), threads_.end(), [this](const auto& thread) {
    const bool sleeps = thread->number >= bodies_ && thread->asleep_at != nullptr;
    return thread->live && (!sleeps || run_.stuck);
  });
}

void Scheduler::Report(const std::string& what) {
  run_.stuck = true;
  if (on_stuck) return on_stuck(what);
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

void Scheduler::Fail(const std::string& what) {
  Report(what);
  throw Stuck(what);
}

// --- for the threads ---

Scheduler* Scheduler::Current() {
  return Thread::current == nullptr ? nullptr : Thread::current->owner;
}

unsigned Scheduler::CurrentThread() { return Thread::current->number; }

void Scheduler::Point(PointKind kind) {
  if (Scheduler* scheduler = Current()) scheduler->Pass(kind);
}

bool Scheduler::Wait() {
  Scheduler* scheduler = Current();
  if (scheduler != nullptr) scheduler->WaitForOthers();
  return scheduler != nullptr;
}

bool Scheduler::SleepAt(const void* condition, std::optional<int64_t> end_ns) {
  return Current()->SleepUntilWoken(condition, end_ns);
}

void Scheduler::WakeAt(const void* condition, bool all) { Current()->Wake(condition, all); }

void Scheduler::EnterEpoch() {
  Thread* self = Thread::current;
  if (self == nullptr) return;
  if (self->epoch_depth++ == 0) ++self->epochs;
  self->owner->Pass(PointKind::kEpoch);
}

void Scheduler::LeaveEpoch() {
  Thread* self = Thread::current;
  if (self == nullptr) return;
  --self->epoch_depth;
  self->owner->Pass(PointKind::kEpoch);
}

bool Scheduler::WaitForEpochs() {
  Scheduler* scheduler = Current();
  if (scheduler != nullptr) scheduler->WaitForEpochsOfOthers();
  return scheduler != nullptr;
}

void Scheduler::WaitForEpochsOfOthers() {
  if (ignores_epochs) return;
  std::array<uint64_t, kMaxThreads> begun{};
  for (const auto& thread : threads_) begun[thread->number] = thread->epochs;
  const auto in_older = [&](const auto& thread) {
    return thread->live && thread->number != current_ && thread->epoch_depth > 0 &&
           thread->epochs == begun[thread->number];
  };
  while (std::any_of(threads_.begin(), threads_.end(), in_older)) WaitForOthers();
}

Scheduler::Aside::Aside() : scheduler_(Scheduler::Current()) {
  if (scheduler_ == nullptr) return;
  Thread::current = nullptr;
  Thread::aside = true;
}

Scheduler::Aside::~Aside() {
  if (scheduler_ == nullptr) return;
  Thread::aside = false;
  Thread::current = scheduler_->threads_[scheduler_->current_].get();
}

bool Scheduler::Aside::Active() { return Thread::aside; }

}  // namespace lodgekv::test
