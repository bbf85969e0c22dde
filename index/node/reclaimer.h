// Frees retired records, and units of an arena, once no reader can still access them.
//
// Writers retire records in batches after the store that unlinked them is durable; the engine's
// background worker waits for the epochs and frees them. Anything else that readers may still
// access is retired in the same way. Thread-safe.
//
// Writers that are faster than the worker free what waits themselves: space that is retired and not
// freed makes allocations take further chunks for their size, and those stay with it.
//
// Units (leaves, nodes, logs) need this where a reader trusts what it has read from one. LodgeTree
// and LB+-Tree free a leaf at once: readers believe what they copied out of it only after they have
// validated a version that changes before it is freed, and waiting would only keep a full pool
// full. The same holds for leaves that no reader has seen. A Horizon concerns records alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "index/node/background_worker.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv {

class Reclaimer {
 public:
  // For an engine whose recovery must distinguish a record that was freed from one that never
  // became whole. Before records are freed, the value that `now` returned after they were retired
  // is made durable.
  struct Horizon {
    // Called before the wait for the epochs; null: there is no horizon.
    std::function<uint64_t()> now;
    // Called after the wait, with that value. False: it is not durable, and the records are kept.
    std::function<bool(uint64_t)> reached;
  };

  // When the worker has been stopped only Drain frees; what is retired after that stays.
  Reclaimer(pmem::RecordSlab& slab, BackgroundWorker& worker, Horizon horizon = {})
      : slab_(slab), worker_(worker), horizon_(std::move(horizon)) {}
  // Stops the worker, whose tasks use this object.
  ~Reclaimer() { worker_.Stop(); }
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

  // Waiting records beyond either are freed by the thread that retires.
  static constexpr size_t kMostRecords = 4'096;
  static constexpr uint64_t kMostBytes = uint64_t{1} << 20;

  // Takes the records of `batch`, which have `bytes` together, and leaves it empty. Not inside an
  // EpochGuard: it may wait for the epochs.
  void Retire(std::vector<pmem::Offset>& batch, uint64_t bytes);
  // Takes a unit of `arena`, which outlives this. Like AfterEpochs, but does not allocate for each
  // unit.
  void RetireUnit(pmem::UnitArena& arena, pmem::Offset unit);
  // Calls `free`, on the worker's thread or in Drain, when every EpochGuard that is held now has
  // ended. May be called under any lock: it waits for nothing. In place it is deferred to the next
  // Retire or Drain.
  void AfterEpochs(std::function<void()> free);
  // Frees all that was retired before, including what the worker is freeing, and the records of
  // `batch`, which it leaves empty. False: there was nothing to free or to wait for. Not inside an
  // EpochGuard.
  bool Drain(std::vector<pmem::Offset>& batch);
  bool Drain();

 private:
  struct Retired {
    std::vector<pmem::Offset> records;
    std::vector<std::pair<pmem::UnitArena*, pmem::Offset>> units;
    std::vector<std::function<void()>> others;
    uint64_t record_bytes = 0;
    bool empty() const { return records.empty() && units.empty() && others.empty(); }
  };
  bool TooManyWait() const {
    return waiting_.records.size() > kMostRecords || waiting_.record_bytes > kMostBytes;
  }
  void PutOff(std::unique_lock<std::mutex>& lock);
  void Post();
  void FreeWaiting(std::unique_lock<std::mutex>& lock);
  void WaitAndFree(const Retired& retired);

  pmem::RecordSlab& slab_;
  BackgroundWorker& worker_;
  const Horizon horizon_;
  std::mutex mutex_;
  std::condition_variable idle_;
  Retired waiting_;
  unsigned freeing_ = 0;           // threads that are freeing
  std::atomic<bool> busy_{false};  // something is waiting or being freed
  bool posted_ = false;            // a task is queued and has not begun
};

}  // namespace lodgekv
