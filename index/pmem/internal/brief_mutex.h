// A mutex for what takes less time than to fall asleep and be woken: a thread that finds it taken
// spins for a while first (glibc's adaptive mutex). Meets the requirements of std::lock_guard.
#pragma once

#include <pthread.h>

namespace lodgekv::pmem {

class BriefMutex {
 public:
  BriefMutex() = default;
  ~BriefMutex() { pthread_mutex_destroy(&mutex_); }
  BriefMutex(const BriefMutex&) = delete;
  BriefMutex& operator=(const BriefMutex&) = delete;

  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
};

}  // namespace lodgekv::pmem
