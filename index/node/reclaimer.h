// Gives retired records, and units of an arena, back once no reader can still look at them.
//
// Writers retire records in batches after the store that unlinked them is durable; the engine's
// worker in the background waits for the epochs and frees. Whatever else readers may still look at
// goes the same way. Thread-safe.
//
// Units (leaves, nodes, logs) need this where a reader trusts what it has read of one. LodgeTree
// and LB+-Tree free a leaf at once: readers believe what they copied out of it only behind a
// version that moves before it is freed, and waiting would only keep a full pool full. So it is
// with leaves that nobody has seen. A Horizon is about records alone.
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
  // For an engine whose recovery must tell a record that was given back from one that never became
  // whole. Before records are given back, what `now` said when they were retired is made durable.
  struct Horizon {
    // Called before the wait for the epochs; null: there is no horizon.
    std::function<uint64_t()> now;
    // Called behind the wait, with that. False: it is not durable, and the records are kept.
    std::function<bool(uint64_t)> reached;
  };

  // When the worker has been stopped only Drain frees; what is retired behind that stays.
  Reclaimer(pmem::RecordSlab& slab, BackgroundWorker& worker, Horizon horizon = {})
      : slab_(slab), worker_(worker), horizon_(std::move(horizon)) {}
  // Stops the worker, whose tasks use this.
  ~Reclaimer() { worker_.Stop(); }
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

  // Takes the records of `batch` and leaves it empty. Not inside an EpochGuard.
  void Retire(std::vector<pmem::Offset>& batch);
  // Takes a unit of `arena`, which outlives this. As AfterEpochs, but without an allocation of its
  // own.
  void RetireUnit(pmem::UnitArena& arena, pmem::Offset unit);
  // Calls `free`, on the worker's thread or in Drain, when every EpochGuard that is held now has
  // ended. Under any lock: nothing is waited for. In place it is put off to the next Retire or
  // Drain.
  void AfterEpochs(std::function<void()> free);
  // Frees all that was retired before, what the worker has in hand included, and the records of
  // `batch`, which it leaves empty. False: there was nothing, and nobody was waited for. Not inside
  // an EpochGuard.
  bool Drain(std::vector<pmem::Offset>& batch);
  bool Drain();

 private:
  struct Retired {
    std::vector<pmem::Offset> records;
    std::vector<std::pair<pmem::UnitArena*, pmem::Offset>> units;
    std::vector<std::function<void()>> others;
    bool empty() const { return records.empty() && units.empty() && others.empty(); }
  };
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
  unsigned freeing_ = 0;           // threads that have some in hand
  std::atomic<bool> busy_{false};  // anything waits or is in hand
  bool posted_ = false;            // a task that has not begun
};

}  // namespace lodgekv
