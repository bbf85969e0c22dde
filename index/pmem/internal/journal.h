// The journal: how a fence is made on an ordinary file.
//
// A sync of the mapped pool writes each page that holds a changed line, wherever it lies. So a
// fence writes what the flushed lines hold to one place, one behind the other, and the pool's pages
// follow at leisure:
//
//   Note        (a Flush) remembers the line, for the thread
//   Fence       copies the thread's lines into the open group; one of the threads that wait writes
//               the group, durably, for all
//   checkpoint  brings the pages of all groups so far to the medium; their segments are used again
//   replay      (journal_replay.h) after a crash stores the lines of the groups to the pool
//
// Why this is sound: docs/crash_model.md, "An ordinary file".
//
// Rules:
//  1. A line is copied under the lock under which groups get their order, so that a later group
//     never holds an older content of a line.
//  2. A group is written when the one before is durable.
//  3. A segment is used again when the pages of its groups have been written back and a durable
//     checkpoint says so.
//  4. Space that goes back to libpmemobj is revoked first, durably, and nobody's noted line of it
//     is copied afterwards.
//  5. Who makes lines durable by a sync of the pool instead declares all groups captured before as
//     not needed, before it says so to anybody.
//
// Thread-safe but for construction and destruction.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "index/journal_use.h"
#include "index/pmem/internal/file_fence.h"
#include "index/pmem/internal/journal_group.h"
#include "index/pmem/internal/journal_space.h"
#include "index/pmem/internal/journal_storage.h"
#include "index/pmem/internal/page_set.h"
#include "index/pmem/internal/pool_writeback.h"
#include "index/pmem/per_worker.h"

namespace lodgekv::pmem {

class Journal : public FileFence {
 public:
  struct Options {
    JournalStorage* storage = nullptr;  // both outlive the journal
    PoolWriteback* pool = nullptr;
    char* base = nullptr;
    uint64_t pool_bytes = 0;
    uint64_t segment_bytes = 0;
    uint32_t crc_seed = 0;  // of this session
    ForeignWords foreign;
    // False: checkpoints are made in place, by the writer that needs room (tests).
    bool background = true;
    // In the background pages are written back at this rate (not 0) at least, faster as the
    // segments fill.
    uint64_t checkpoint_bytes_per_second = 0;
    std::function<void(const std::string& what)> on_failure;  // called once
    Tracer* tracer = nullptr;                                 // tests: asked for canaries
  };
  explicit Journal(const Options& options);
  // Ends the checkpoints; nothing is written.
  ~Journal() override;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Smallest segment that a journal can have.
  static constexpr uint64_t kMinSegmentBytes = uint64_t{256} << 10;

  void Note(const void* line) override;
  bool Fence() override;

  bool Revoke(const void* address, uint64_t bytes) override;

  // What was stored to the pool before is on the medium, and no group so far is needed: what a
  // replay would do then is nothing. False: as Fence.
  bool SyncPool();

  // Brings the pages of all groups written so far to the medium and frees their segments.
  bool Checkpoint();

  JournalUse use() const;

 private:
  // The lines that a thread has flushed and not fenced.
  struct Noted {
    std::mutex mu;
    std::vector<uint64_t> lines;
    bool too_many = false;  // then `lines` says nothing
  };
  using Lock = std::unique_lock<std::mutex>;

  bool Canary(std::string_view name) const {
    return options_.tracer != nullptr && options_.tracer->OnCanary(name);
  }
  uint64_t LineNumber(const void* address) const {
    return static_cast<uint64_t>(static_cast<const char*>(address) - options_.base) / kLineBytes;
  }
  // True when group `sequence` is durable. May write groups.
  bool AwaitGroup(Lock& lock, uint64_t sequence);
  void AwaitRoom(Lock& lock);
  void WriteOpenGroup(Lock& lock);
  // Copies all lines, into as many groups as it takes; the number of the last.
  uint64_t Capture(Lock& lock, std::span<const uint64_t> lines);
  bool WriteBack(const PageSet& pages);
  void Pace(const PageSet::Run& slice, double done, uint64_t begun_ns);
  // Durable: replay begins at `sequence`.
  bool Retire(uint64_t sequence);
  void RunCheckpoints();
  bool Ending() const;
  void Fail(const std::string& what);

  const Options options_;
  const size_t most_lines_;  // of a thread; more are fenced by a sync of the pool
  PerWorker<Noted> noted_;

  // Held over a checkpoint, or over a Retire; before mu_.
  std::mutex checkpoint_mu_;
  PageSet write_back_;                // checkpoint_mu_
  uint64_t checkpoints_written_ = 0;  // checkpoint_mu_

  mutable std::mutex mu_;
  std::condition_variable changed_;  // a group is durable, a segment free, or all is over
  std::condition_variable work_;     // for the checkpoints' thread
  JournalGroupBuffer open_;
  JournalGroupBuffer writing_;  // without the lock, by the thread that set writing_now_
  JournalSpace space_;
  PageSet touched_;  // pages of the groups captured since the last checkpoint began
  uint64_t open_sequence_ = 1;
  uint64_t durable_ = 0;
  uint64_t replay_from_ = 1;
  bool writing_now_ = false;
  unsigned pool_syncs_waiting_ = 0;  // then nobody captures
  unsigned waiting_for_room_ = 0;
  bool told_ = false;  // of the failure
  bool failed_ = false;
  bool ending_ = false;
  uint64_t used_before_checkpoint_ = 0;
  JournalUse use_;
  std::thread checkpoints_;
};

}  // namespace lodgekv::pmem
