// The linker (--wrap) redirects calls of X to __wrap_X; __real_X is the original.
#include "tests/crash/schedule/scheduled_calls.h"

#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>

#include "index/art/byte_search.h"
#include "index/node/record.h"
#include "index/node/search_form.h"
#include "index/node/version_lock.h"
#include "tests/crash/schedule/scheduler.h"

using lodgekv::test::PointKind;
using lodgekv::test::Scheduler;

#define EPOCH_GUARD_BEGIN(prefix) prefix##_ZN7lodgekv10EpochGuardC1Ev
#define EPOCH_GUARD_END(prefix) prefix##_ZN7lodgekv10EpochGuardD1Ev
#define WAIT_FOR_EPOCHS(prefix) prefix##_ZN7lodgekv13WaitForEpochsEv
#define COMPARE_WORDS(prefix) prefix##_ZN7lodgekv12CompareWordsE
#define NOT_ABOVE(prefix) prefix##_ZN7lodgekv8NotAboveE
#define COMPARE_BYTES(prefix) prefix##_ZN7lodgekv3art12CompareBytesE
#define SEARCH_FORM(prefix) prefix##_ZN7lodgekv11kSearchFormE
#define RECORD_IS_SOUND(prefix) \
  prefix##_ZN7lodgekv13RecordIsSoundERKNS_4pmem4PoolEmRKNS_10RecordViewE

// std::condition_variable::wait, notify_one and notify_all are calls into the standard library,
// which is already linked; waits with a timeout arrive here as pthread calls.
#define CONDITION_WAIT(prefix) prefix##_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE
#define CONDITION_NOTIFY_ONE(prefix) prefix##_ZNSt18condition_variable10notify_oneEv
#define CONDITION_NOTIFY_ALL(prefix) prefix##_ZNSt18condition_variable10notify_allEv
#define STEADY_NOW(prefix) prefix##_ZNSt6chrono3_V212steady_clock3nowEv
#define SYSTEM_NOW(prefix) prefix##_ZNSt6chrono3_V212system_clock3nowEv

namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

void WaitByScheduler() {
  if (!Scheduler::Wait()) sched_yield();
}

int LockBy(int (*try_lock)(void*), int (*lock)(void*), void* what) {
  if (Scheduler::Current() == nullptr) return lock(what);
  Scheduler::Point(PointKind::kMutex);
  for (;;) {
    const int result = try_lock(what);
    if (result != EBUSY) return result;
    Scheduler::Wait();
  }
}

// Returns 0 or ETIMEDOUT. No other thread runs between the release of the mutex and the sleep.
int SleepBy(pthread_cond_t* condition, pthread_mutex_t* mutex, std::optional<int64_t> end_ns) {
  pthread_mutex_unlock(mutex);
  const bool woken = Scheduler::SleepAt(condition, end_ns);
  pthread_mutex_lock(mutex);
  return woken ? 0 : ETIMEDOUT;
}

// The caller is on no thread of a scheduler's; guests of one may sleep there all the same.
bool WakesOutside(const pthread_cond_t* condition) {
  if (Scheduler::Current() != nullptr) return false;
  Scheduler::WakeGuestsAt(condition);
  return true;
}

int64_t Nanoseconds(const timespec& time) {
  return time.tv_sec * kNanosecondsPerSecond + time.tv_nsec;
}

}  // namespace

extern "C" {

int __real_pthread_mutex_lock(pthread_mutex_t*);
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (Scheduler::Current() != nullptr && Scheduler::Current()->ignores_mutexes) {
    Scheduler::Point(PointKind::kMutex);
    (void)pthread_mutex_trylock(mutex);
    return 0;
  }
  return LockBy([](void* m) { return pthread_mutex_trylock(static_cast<pthread_mutex_t*>(m)); },
                [](void* m) { return __real_pthread_mutex_lock(static_cast<pthread_mutex_t*>(m)); },
                mutex);
}

int __real_pthread_rwlock_rdlock(pthread_rwlock_t*);
int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  return LockBy(
      [](void* l) { return pthread_rwlock_tryrdlock(static_cast<pthread_rwlock_t*>(l)); },
      [](void* l) { return __real_pthread_rwlock_rdlock(static_cast<pthread_rwlock_t*>(l)); },
      lock);
}

int __real_pthread_rwlock_wrlock(pthread_rwlock_t*);
int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  return LockBy(
      [](void* l) { return pthread_rwlock_trywrlock(static_cast<pthread_rwlock_t*>(l)); },
      [](void* l) { return __real_pthread_rwlock_wrlock(static_cast<pthread_rwlock_t*>(l)); },
      lock);
}

int __real_pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*);
int __wrap_pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (Scheduler::Current() == nullptr) return __real_pthread_cond_wait(condition, mutex);
  return SleepBy(condition, mutex, {});
}

int __real_pthread_cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const timespec*);
int __wrap_pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  const timespec* end) {
  if (Scheduler::Current() == nullptr) return __real_pthread_cond_timedwait(condition, mutex, end);
  return SleepBy(condition, mutex, Nanoseconds(*end));
}

int __real_pthread_cond_clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* end) {
  if (Scheduler::Current() == nullptr) {
    return __real_pthread_cond_clockwait(condition, mutex, clock, end);
  }
  return SleepBy(condition, mutex, Nanoseconds(*end));
}

int __real_pthread_cond_signal(pthread_cond_t*);
int __wrap_pthread_cond_signal(pthread_cond_t* condition) {
  if (WakesOutside(condition)) return __real_pthread_cond_signal(condition);
  Scheduler::WakeAt(condition, false);
  return 0;
}

int __real_pthread_cond_broadcast(pthread_cond_t*);
int __wrap_pthread_cond_broadcast(pthread_cond_t* condition) {
  if (WakesOutside(condition)) return __real_pthread_cond_broadcast(condition);
  Scheduler::WakeAt(condition, true);
  return 0;
}

void CONDITION_WAIT(__real_)(std::condition_variable*, std::unique_lock<std::mutex>*);
void CONDITION_WAIT(__wrap_)(std::condition_variable* condition,
                             std::unique_lock<std::mutex>* lock) {
  if (Scheduler::Current() == nullptr) return CONDITION_WAIT(__real_)(condition, lock);
  SleepBy(condition->native_handle(), lock->mutex()->native_handle(), {});
}

void CONDITION_NOTIFY_ONE(__real_)(std::condition_variable*);
void CONDITION_NOTIFY_ONE(__wrap_)(std::condition_variable* condition) {
  if (WakesOutside(condition->native_handle())) return CONDITION_NOTIFY_ONE(__real_)(condition);
  Scheduler::WakeAt(condition->native_handle(), false);
}

void CONDITION_NOTIFY_ALL(__real_)(std::condition_variable*);
void CONDITION_NOTIFY_ALL(__wrap_)(std::condition_variable* condition) {
  if (WakesOutside(condition->native_handle())) return CONDITION_NOTIFY_ALL(__real_)(condition);
  Scheduler::WakeAt(condition->native_handle(), true);
}

// The time points of both clocks hold nanoseconds since the clock's epoch.
int64_t STEADY_NOW(__real_)();
int64_t STEADY_NOW(__wrap_)() {
  const Scheduler* scheduler = Scheduler::Current();
  return scheduler == nullptr ? STEADY_NOW(__real_)() : scheduler->now_ns();
}

int64_t SYSTEM_NOW(__real_)();
int64_t SYSTEM_NOW(__wrap_)() {
  const Scheduler* scheduler = Scheduler::Current();
  return scheduler == nullptr ? SYSTEM_NOW(__real_)() : scheduler->now_ns();
}

int __real_sched_yield();
int __wrap_sched_yield() { return Scheduler::Wait() ? 0 : __real_sched_yield(); }

// A sleeping thread waits for others; one that polls a clock advances its time.
int __real_nanosleep(const timespec*, timespec*);
int __wrap_nanosleep(const timespec* length, timespec* rest) {
  Scheduler* scheduler = Scheduler::Current();
  if (scheduler == nullptr) return __real_nanosleep(length, rest);
  (void)Scheduler::SleepAt(length, scheduler->now_ns() + Nanoseconds(*length));
  return 0;
}

void EPOCH_GUARD_BEGIN(__real_)(void* guard);
void EPOCH_GUARD_BEGIN(__wrap_)(void* guard) {
  EPOCH_GUARD_BEGIN(__real_)(guard);
  Scheduler::EnterEpoch();
}

void EPOCH_GUARD_END(__real_)(void* guard);
void EPOCH_GUARD_END(__wrap_)(void* guard) {
  EPOCH_GUARD_END(__real_)(guard);
  Scheduler::LeaveEpoch();
}

// Readers that sleep within an epoch are readers of the scheduled engine: another engine, opened
// aside, need not wait for them.
void WAIT_FOR_EPOCHS(__real_)();
void WAIT_FOR_EPOCHS(__wrap_)() {
  if (!Scheduler::Aside::Active() && !Scheduler::WaitForEpochs()) WAIT_FOR_EPOCHS(__real_)();
}

bool RECORD_IS_SOUND(__real_)(const lodgekv::pmem::Pool&, uint64_t, const lodgekv::RecordView&);
bool RECORD_IS_SOUND(__wrap_)(const lodgekv::pmem::Pool& pool, uint64_t offset,
                              const lodgekv::RecordView& view) {
  Scheduler::Point(PointKind::kRecord);
  return RECORD_IS_SOUND(__real_)(pool, offset, view);
}

// All are function pointers, chosen before main.
extern const lodgekv::CompareWordsFunction COMPARE_WORDS(__real_);
extern const lodgekv::NotAboveFunction NOT_ABOVE(__real_);
static lodgekv::WordMasks ScheduledCompareWords(const uint64_t* words, uint64_t word) {
  const lodgekv::WordMasks masks = COMPARE_WORDS(__real_)(words, word);
  Scheduler::Point(PointKind::kSearch);
  return masks;
}
static uint32_t ScheduledNotAbove(const uint64_t* words, uint64_t word) {
  const uint32_t mask = NOT_ABOVE(__real_)(words, word);
  Scheduler::Point(PointKind::kSearch);
  return mask;
}
extern const lodgekv::CompareWordsFunction COMPARE_WORDS(__wrap_);
extern const lodgekv::NotAboveFunction NOT_ABOVE(__wrap_);
const lodgekv::CompareWordsFunction COMPARE_WORDS(__wrap_) = ScheduledCompareWords;
const lodgekv::NotAboveFunction NOT_ABOVE(__wrap_) = ScheduledNotAbove;
extern const lodgekv::art::CompareBytesFunction COMPARE_BYTES(__real_);
static lodgekv::art::ByteMasks ScheduledCompareBytes(const uint8_t* bytes, uint8_t byte) {
  const lodgekv::art::ByteMasks masks = COMPARE_BYTES(__real_)(bytes, byte);
  Scheduler::Point(PointKind::kSearch);
  return masks;
}
extern const lodgekv::art::CompareBytesFunction COMPARE_BYTES(__wrap_);
const lodgekv::art::CompareBytesFunction COMPARE_BYTES(__wrap_) = ScheduledCompareBytes;
// Inlined searches are no points.
extern const lodgekv::SearchForm SEARCH_FORM(__wrap_);
const lodgekv::SearchForm SEARCH_FORM(__wrap_) = lodgekv::SearchForm::kByPointer;

}  // extern "C"

static_assert(std::chrono::steady_clock::period::den == kNanosecondsPerSecond);
static_assert(std::chrono::system_clock::period::den == kNanosecondsPerSecond);

namespace lodgekv::test {

ScheduledWaits::ScheduledWaits() { Backoff::waiter.store(WaitByScheduler); }
ScheduledWaits::~ScheduledWaits() { Backoff::waiter.store(nullptr); }

}  // namespace lodgekv::test
