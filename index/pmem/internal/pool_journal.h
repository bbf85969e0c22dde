// The journal of a pool on an ordinary file, over the lifetime of the pool.
//
// Opening: Recover replays what a crash left, then Begin starts a session: a number of its own, and
// an empty journal. Closing: End. The pool's journal word (pool_header.h) says which session's
// journal the pool needs; 0: none, as after a clean close.
//
//      step                                             after a crash
//   Begin
//   1  pool's word and marks 0 once more                the pool is whole without the journal
//   2  journal file whole, header: new session, needed  word 0: the journal does not count
//   3  pool's word names the session, marks are 1       the journal is needed, and is empty
//      fences go through the journal
//   Recover
//   1  lines stored to the pool, not synced             word as it was: replayed again
//   2  pool synced                                      as 1
//   3  pool's word and marks 0                          the pool is whole without the journal
//   End
//   1  pool synced, checkpoint says that no group counts   replay does nothing
//      fences sync the pool
//   2  pool's word and marks 0                          the pool is whole without the journal
//   3  header: not needed                               as 2; another pool may take the file over
//
// Used by one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/internal/file_fence.h"
#include "index/pmem/internal/journal.h"
#include "index/pmem/internal/journal_replay.h"
#include "index/pmem/internal/journal_storage.h"
#include "index/pmem/internal/pool_header.h"

namespace lodgekv::pmem {

// Where a pool's journal is stored: at a path, or in a test's memory.
class JournalPlace {
 public:
  virtual ~JournalPlace() = default;
  // For messages.
  virtual std::string name() const = 0;
  // NotFound if there is none.
  virtual absl::StatusOr<std::shared_ptr<JournalStorage>> Open() = 0;
  // Creates a journal, all zero; replaces one that is no longer needed.
  virtual absl::StatusOr<std::shared_ptr<JournalStorage>> Make(uint64_t bytes) = 0;
  virtual absl::Status Remove() = 0;
};

class JournalFilePlace : public JournalPlace {
 public:
  explicit JournalFilePlace(std::string path) : path_(std::move(path)) {}
  std::string name() const override { return path_; }
  absl::StatusOr<std::shared_ptr<JournalStorage>> Open() override;
  absl::StatusOr<std::shared_ptr<JournalStorage>> Make(uint64_t bytes) override;
  absl::Status Remove() override;

 private:
  const std::string path_;
};

class PoolJournal {
 public:
  struct Options {
    PoolHeader* header = nullptr;  // its identity is loaded
    Medium* medium = nullptr;
    char* base = nullptr;
    uint64_t pool_bytes = 0;
    PoolWriteback* pool = nullptr;  // of an ordinary file; outlives the PoolJournal
    ForeignWords foreign;
    uint64_t bytes = 0;  // of the segments together, see JournalBytes
    uint64_t checkpoint_bytes_per_second = 0;
    bool background = true;
    std::function<void(const std::string& what)> on_failure;
  };
  PoolJournal(const Options& options, std::shared_ptr<JournalPlace> place)
      : options_(options), place_(std::move(place)) {}
  ~PoolJournal();
  PoolJournal(const PoolJournal&) = delete;
  PoolJournal& operator=(const PoolJournal&) = delete;

  // Prepares the file for Begin; for a new pool, before it has its name. If the PoolJournal is
  // destroyed before Begin, removes what it created. FailedPrecondition, and the file is left as it
  // is: something else is there, or another pool's journal, or that of another copy of this pool,
  // that may be needed.
  absl::Status Prepare();

  // Replays what the pool needs; then the pool is complete without the journal. FailedPrecondition
  // if the journal is missing, or belongs to another pool or moment; DataLoss if it is damaged.
  // Then nothing is stored.
  absl::Status Recover();

  // From here on the medium's fences use the journal.
  absl::Status Begin();
  // Everything is in the pool, and the medium's fences are `direct` again. False: a write or a sync
  // has failed, now or before; the pool still needs its journal.
  bool End(FileFence* direct);

  // Between Begin and End.
  const Journal* journal() const { return journal_.get(); }
  std::string place_name() const { return place_->name(); }
  const JournalReplay& replay() const { return replay_; }
  // Ends the checkpoints, before their write-back target is destroyed. The pool still needs the
  // journal.
  void Stop() { journal_.reset(); }
  // Removes the journal with its pool. Call after Stop.
  absl::Status Remove();

 private:
  uint32_t crc_seed() const { return options_.header->crc_seed(); }
  uint32_t SeedOf(uint64_t session) const;
  absl::Status Named(const absl::Status& status) const;
  bool IsOurs(const media::JournalHeader& header) const;
  absl::Status CheckOwner(const media::JournalHeader& header, uint64_t session) const;
  absl::Status CheckNoCopyNeeds(JournalStorage& storage, const media::JournalHeader& header) const;
  absl::Status Replay(JournalStorage& storage, const media::JournalHeader& header,
                      const JournalMarks& marks);
  bool SyncReplayed();
  // Whether the existing journal can be reused as it is. Not OK: it must not be touched.
  absl::StatusOr<bool> Usable(JournalStorage& storage) const;
  absl::Status WriteHeader(uint64_t session, bool needed);

  const Options options_;
  const std::shared_ptr<JournalPlace> place_;
  std::shared_ptr<JournalStorage> storage_;
  std::unique_ptr<Journal> journal_;
  JournalReplay replay_;
  bool replayed_ = false;  // by Recover: the pool has what the journal has
  bool made_ = false;      // Prepare created the file, and Begin was not called yet
};

// The parts of a journal for a pool in a test's memory; all must outlive the pool.
struct ArenaJournal {
  std::shared_ptr<JournalPlace> place;
  FileFence* direct = nullptr;  // makes all of the pool durable
  PoolWriteback* pool = nullptr;
  uint64_t bytes = 0;
};

// The total size of the segments: `wanted`, or for 0 an eighth of the pool, at least 1 MiB and at
// most 128 MiB. InvalidArgument if `wanted` is out of bounds.
absl::StatusOr<uint64_t> JournalBytes(uint64_t wanted, uint64_t pool_bytes);

}  // namespace lodgekv::pmem
