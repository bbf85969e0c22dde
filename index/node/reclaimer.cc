#include "index/node/reclaimer.h"

#include "index/node/epoch.h"

namespace lodgekv {

Reclaimer::~Reclaimer() { Stop(); }

void Reclaimer::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Reclaimer::WaitAndFree(const Retired& retired) {
  const bool bounded = horizon_.now != nullptr && !retired.records.empty();
  const uint64_t horizon = bounded ? horizon_.now() : 0;
  WaitForEpochs();
  for (const auto& free : retired.others) free();
  if (bounded && !horizon_.reached(horizon)) return;
  for (const pmem::Offset record : retired.records) slab_.Free(record);
}

// Under the mutex.
void Reclaimer::WakeThread() {
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  wake_.notify_one();
}

void Reclaimer::Retire(std::vector<pmem::Offset>& batch) {
  if (in_place_) {
    WaitAndFree({batch, {}});
    batch.clear();
    return;
  }
  const std::lock_guard lock(mutex_);
  waiting_.records.insert(waiting_.records.end(), batch.begin(), batch.end());
  batch.clear();
  WakeThread();
}

void Reclaimer::AfterEpochs(std::function<void()> free) {
  const std::lock_guard lock(mutex_);
  waiting_.others.push_back(std::move(free));
  WakeThread();
}

void Reclaimer::Drain() {
  Retired retired;
  {
    const std::lock_guard lock(mutex_);
    std::swap(retired, waiting_);
  }
  WaitAndFree(retired);
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !freeing_; });
}

void Reclaimer::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    Retired retired;
    std::swap(retired, waiting_);
    freeing_ = true;
    lock.unlock();
    WaitAndFree(retired);
    lock.lock();
    freeing_ = false;
    idle_.notify_all();
  }
}

}  // namespace lodgekv
