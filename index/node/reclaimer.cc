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

void Reclaimer::WaitAndFree(const std::vector<pmem::Offset>& records) {
  const bool bounded = horizon_.now != nullptr && !records.empty();
  const uint64_t horizon = bounded ? horizon_.now() : 0;
  WaitForEpochs();
  if (bounded && !horizon_.reached(horizon)) return;
  for (const pmem::Offset record : records) slab_.Free(record);
}

void Reclaimer::Retire(std::vector<pmem::Offset>& batch) {
  if (in_place_) {
    WaitAndFree(batch);
    batch.clear();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), batch.begin(), batch.end());
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  batch.clear();
  wake_.notify_one();
}

void Reclaimer::Drain() {
  std::vector<pmem::Offset> records;
  {
    const std::lock_guard lock(mutex_);
    records.swap(waiting_);
  }
  WaitAndFree(records);
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !freeing_; });
}

void Reclaimer::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    std::vector<pmem::Offset> records;
    records.swap(waiting_);
    freeing_ = true;
    lock.unlock();
    WaitAndFree(records);
    lock.lock();
    freeing_ = false;
    idle_.notify_all();
  }
}

}  // namespace lodgekv
