#include "index/node/reclaimer.h"

#include "index/node/epoch.h"

namespace lodgekv {

void Reclaimer::WaitAndFree(const Retired& retired) {
  const bool bounded = horizon_.now != nullptr && !retired.records.empty();
  const uint64_t horizon = bounded ? horizon_.now() : 0;
  WaitForEpochs();
  for (const auto& [arena, unit] : retired.units) arena->Free(unit);
  for (const auto& free : retired.others) free();
  if (bounded && !horizon_.reached(horizon)) return;
  for (const pmem::Offset record : retired.records) slab_.Free(record);
}

// One task frees all that is retired before it begins; in place it begins at once. It must not
// throw: a thread in Drain would wait forever for a batch that was freed only in part.
void Reclaimer::Post() {
  worker_.Post([this]() noexcept -> absl::StatusOr<BackgroundWorker::Progress> {
    std::unique_lock lock(mutex_);
    posted_ = false;
    FreeWaiting(lock);
    return BackgroundWorker::Progress::kDone;
  });
}

void Reclaimer::Retire(std::vector<pmem::Offset>& batch, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  waiting_.records.insert(waiting_.records.end(), batch.begin(), batch.end());
  waiting_.record_bytes += bytes;
  batch.clear();
  busy_.store(true, std::memory_order_release);
  if (!std::exchange(posted_, true)) {
    lock.unlock();
    Post();
  } else if (TooManyWait()) {
    FreeWaiting(lock);
  }
}

void Reclaimer::RetireUnit(pmem::UnitArena& arena, pmem::Offset unit) {
  std::unique_lock lock(mutex_);
  waiting_.units.emplace_back(&arena, unit);
  PutOff(lock);
}

void Reclaimer::AfterEpochs(std::function<void()> free) {
  std::unique_lock lock(mutex_);
  waiting_.others.push_back(std::move(free));
  PutOff(lock);
}

// Called under the mutex, which it may release. The caller may hold locks and an EpochGuard.
void Reclaimer::PutOff(std::unique_lock<std::mutex>& lock) {
  busy_.store(true, std::memory_order_release);
  if (worker_.in_place() || std::exchange(posted_, true)) return;
  lock.unlock();
  Post();
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

// Frees all that waits; releases the mutex meanwhile.
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

}  // namespace lodgekv
