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
  busy_.store(true, std::memory_order_release);
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

bool Reclaimer::Drain() {
  std::vector<pmem::Offset> none;
  return Drain(none);
}

bool Reclaimer::Drain(std::vector<pmem::Offset>& batch) {
  if (batch.empty() && !busy_.load(std::memory_order_acquire)) return false;
  std::unique_lock lock(mutex_);
  waiting_.records.insert(waiting_.records.end(), batch.begin(), batch.end());
  batch.clear();
  busy_.store(freeing_ != 0 || !waiting_.empty(), std::memory_order_release);
  FreeWaiting(lock);
  idle_.wait(lock, [this] { return freeing_ == 0; });
  return true;
}

// All that waits; without the mutex meanwhile.
void Reclaimer::FreeWaiting(std::unique_lock<std::mutex>& lock) {
  if (waiting_.empty()) return;
  Retired retired;
  std::swap(retired, waiting_);
  ++freeing_;
  lock.unlock();
  WaitAndFree(retired);
  lock.lock();
  --freeing_;
  busy_.store(freeing_ != 0 || !waiting_.empty(), std::memory_order_release);
  idle_.notify_all();
}

void Reclaimer::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (!stop_) FreeWaiting(lock);
  }
}

}  // namespace lodgekv
