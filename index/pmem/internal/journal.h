// The journal: the implementation of a fence on an ordinary file.
//
// A sync of the mapped pool writes each page with a changed line, wherever it is. So a fence
// instead writes the content of the flushed lines sequentially to one place, and the pool's pages
// follow later:
//
//   Note        (a Flush) remembers the line, for the thread
//   Fence       copies the thread's lines into the open group; one of the waiting threads writes
//               the group, durably, for all
//   StoreLater  a commit word: copied into a group behind, or with, the lines that it commits, and
//               stored in the pool by the thread that has written that group
//   checkpoint  writes the pages of all groups so far back to the medium; their segments are reused
//   replay      (journal_replay.h) after a crash stores the lines of the groups to the pool
//
// Why this is sound: docs/crash_model.md, "An ordinary file".
//
// Rules:
//  1. A line is copied under the lock that orders the groups, so that a later group never holds
//     older content of a line.
//  2. A group is written when the one before is durable.
//  3. A segment is reused when the pages of its groups have been written back and a durable
//     checkpoint says so.
//  4. Space returned to libpmemobj is revoked first, durably, and no thread's noted line of it is
//     copied afterwards.
//  5. A thread that makes lines durable by a sync of the pool instead marks all groups captured
//     before as not needed, before it reports success to anybody.
//  6. The pool has no word of StoreLater before its group is durable: the kernel could write the
//     page before what the word commits. All words of a fence are in one group. Copies of their
//     lines have them from the capture on (rule 1), and their group is needed until a checkpoint
//     has begun after the store.
//  7. The page of a flushed line is made dirty at the flush: what a process finds in memory and
//     only flushes may lie on a page that the kernel takes for clean (dirty_page.h), and a
//     checkpoint would drop its group without writing it.
//  8. The pool's marks (journal_marks.h) are stored when the groups below them are durable, and the
//     checkpoint mark is written back before the journal says that replay begins there.
//
// Thread-safe except for construction and destruction.
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
    // Of the pool, each holding 1 (journal_marks.h).
    Word* checkpoint_mark = nullptr;
    Word* group_mark = nullptr;
    // False: a writer that needs room makes the checkpoints itself (tests).
    bool background = true;
    // The minimum rate (not 0) at which pages are written back in the background; faster as the
    // segments fill.
    uint64_t checkpoint_bytes_per_second = 0;
    std::function<void(const std::string& what)> on_failure;  // called once
    Tracer* tracer = nullptr;                                 // for tests: asked for canaries
  };
  explicit Journal(const Options& options);
  // Ends the checkpoints; nothing is written.
  ~Journal() override;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Smallest segment that a journal can have.
  static constexpr uint64_t kMinSegmentBytes = uint64_t{256} << 10;

  void Note(const void* line) override;
  bool stores_later() const override { return true; }
  bool StoreLater(uint64_t* word, uint64_t value) override;
  bool Fence() override;

  bool Revoke(const void* address, uint64_t bytes) override;

  // Makes everything stored to the pool before durable, and all groups so far unneeded: a replay
  // would do nothing then. False: as Fence.
  bool SyncPool();

  // Writes the pages of all groups written so far back to the medium and frees their segments.
  bool Checkpoint();

  JournalUse use() const;

 private:
  // The lines that a thread has flushed but not fenced.
  struct Noted {
    std::mutex mu;
    std::vector<uint64_t> lines;
    std::vector<LaterStore> later;
    std::vector<uint64_t> lines_of_later;  // of a fence
    bool too_many = false;                 // then `lines` is not valid

    void TakeLinesOfLater();
  };
  using Lock = std::unique_lock<std::mutex>;

  bool Canary(std::string_view name) const {
    return options_.tracer != nullptr && options_.tracer->OnCanary(name);
  }
  uint64_t LineNumber(const void* address) const {
    return static_cast<uint64_t>(static_cast<const char*>(address) - options_.base) / kLineBytes;
  }
  static uint64_t PageOfLine(uint64_t line) { return line * kLineBytes / PageSet::kPageBytes; }
  void DirtyPageOf(const void* line) const;
  // Returns true when group `sequence` is durable. May write groups.
  bool AwaitGroup(Lock& lock, uint64_t sequence);
  void AwaitRoom(Lock& lock);
  void WriteOpenGroup(Lock& lock);
  // Copies all lines, into as many groups as necessary; returns the number of the last.
  uint64_t Capture(Lock& lock, std::span<const uint64_t> lines);
  // The same, of the lines of `stores`, into one group.
  uint64_t CaptureLater(Lock& lock, std::span<const uint64_t> lines,
                        std::span<const LaterStore> stores);
  size_t CaptureSome(std::span<const uint64_t> lines);
  void StoreWord(const LaterStore& store) const;
  void Mark(Word* mark, uint64_t group) const;
  // Of the group that is durable now.
  void StoreWords();
  bool WriteBack(const PageSet& pages);
  void Pace(const PageSet::Run& slice, double done, uint64_t begun_ns);
  // Of the checkpoint, or sync of the pool, that begins and will Retire(sequence).
  void MarkCheckpoint(uint64_t sequence);
  // Durable: replay begins at `sequence`.
  bool Retire(uint64_t sequence);
  void RunCheckpoints();
  bool Ending() const;
  void Fail(const std::string& what);

  const Options options_;
  const size_t most_lines_;  // of a thread; more are fenced by a sync of the pool
  const size_t most_later_;  // of a thread; before more it fences
  PerWorker<Noted> noted_;

  // Held during a checkpoint, or a Retire; acquired before mu_.
  std::mutex checkpoint_mu_;
  PageSet write_back_;                // checkpoint_mu_
  uint64_t checkpoints_written_ = 0;  // checkpoint_mu_

  mutable std::mutex mu_;
  std::condition_variable changed_;  // a group is durable, a segment free, or everything has ended
  std::condition_variable work_;     // for the checkpoint thread
  JournalGroupBuffer open_;
  JournalGroupBuffer writing_;  // used without the lock by the thread that set writing_now_
  JournalSpace space_;
  PageSet touched_;  // pages of the groups captured since the last checkpoint began
  uint64_t open_sequence_ = 1;
  uint64_t durable_ = 0;
  uint64_t replay_from_ = 1;
  uint64_t marked_checkpoint_ = 1;
  bool writing_now_ = false;
  unsigned pool_syncs_waiting_ = 0;  // if not 0, nobody captures
  unsigned waiting_for_room_ = 0;
  bool told_ = false;  // the failure was reported
  bool failed_ = false;
  bool ending_ = false;
  uint64_t used_before_checkpoint_ = 0;
  JournalUse use_;
  std::thread checkpoints_;
};

}  // namespace lodgekv::pmem
