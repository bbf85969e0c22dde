// __wrap_X is called where the program says X; __real_X is X (ld --wrap).
#include "tests/crash/scheduled_calls.h"

#include <pthread.h>
#include <sched.h>

#include <cerrno>

#include "index/node/record.h"
#include "index/node/version_lock.h"
#include "index/node/word_search.h"
#include "tests/crash/scheduler.h"

using lodgekv::test::PointKind;
using lodgekv::test::Scheduler;

#define EPOCH_GUARD_BEGIN(prefix) prefix##_ZN7lodgekv10EpochGuardC1Ev
#define EPOCH_GUARD_END(prefix) prefix##_ZN7lodgekv10EpochGuardD1Ev
#define WAIT_FOR_EPOCHS(prefix) prefix##_ZN7lodgekv13WaitForEpochsEv
#define COMPARE_WORDS(prefix) prefix##_ZN7lodgekv12CompareWordsE
#define NOT_ABOVE(prefix) prefix##_ZN7lodgekv8NotAboveE
#define RECORD_IS_SOUND(prefix) \
  prefix##_ZN7lodgekv13RecordIsSoundERKNS_4pmem4PoolEmRKNS_10RecordViewE

namespace {

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

int __real_sched_yield();
int __wrap_sched_yield() { return Scheduler::Wait() ? 0 : __real_sched_yield(); }

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

// Readers that sleep within an epoch are readers of the engine that is being scheduled: another,
// opened aside, need not wait for them.
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

// These two are pointers to functions, chosen before main.
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

}  // extern "C"

namespace lodgekv::test {

ScheduledWaits::ScheduledWaits() { Backoff::waiter.store(WaitByScheduler); }
ScheduledWaits::~ScheduledWaits() { Backoff::waiter.store(nullptr); }

}  // namespace lodgekv::test
