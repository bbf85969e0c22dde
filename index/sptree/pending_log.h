// What the logs have and no leaf has taken yet, where recovery has touched no leaf (SPTree 4.7,
// first_touch.h): a leaf takes its entries into its write buffer when it gets its Mnode.
//
// The logs are read once when the pool is opened, which takes time by their size alone, and that is
// limited (TreeState::LogLimit). No leaf is read for that: so it is not known yet which entries are
// dead. Each goes to a bin by its key, as 8 bytes that say where it is. The borders of the bins are
// keys of entries, drawn evenly. The first leaf that looks for its entries in a bin has it ordered
// by key.
//
// Invariants
//  1. Each entry is counted as valid in its log (append_log.h) until a leaf has judged it: dead, it
//     is released; taken, it is the buffer's.
//  2. While it is not judged its record is not overwritten, marked or not: what was there at the
//     start is free only when all leaves have been touched (pmem/unit_arena.h). A leaf that takes
//     it marks it.
//  3. A leaf takes of each key the newest entry, if its number is above the leaf's watermark, in
//     the order of their numbers. So the buffer is as if it had been written to since.
//  4. An entry without a whole record is dead: a leaf of its key word has a watermark that is no
//     lower, or another entry of that word and hash is newer. That is known, and damage found, when
//     all leaves have been touched.
//
// Read, Keep and End belong to recovery and its sweep. The rest is thread-safe for different
// leaves.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "index/node/log_entries.h"
#include "index/sptree/leaf_examiner.h"
#include "index/sptree/log_bins.h"
#include "index/sptree/mnode.h"
#include "index/sptree/worker.h"

namespace lodgekv::sptree {

template <class C>
struct TreeState;

template <class C>
class PendingLog {
 public:
  using Key = typename C::Key;
  using Separator = typename C::Separator;

  struct Entry {
    Pair pair;
    uint64_t sequence;
    uint32_t log;  // by its position among those found; a leaf's: by its number
    LogOp op;
  };
  // What is of one leaf's range.
  struct Share {
    std::vector<Entry> taken;    // ascending by number
    std::vector<uint32_t> dead;  // the log of each
  };

  explicit PendingLog(TreeState<C>& tree);
  ~PendingLog();

  // Reads the logs. Stores nothing.
  absl::Status Read(const EngineContext& context);
  // The pool is in use: the logs of which something may be needed stay, and groups that were never
  // fenced are gone for good.
  absl::Status Keep();

  // Orders the bin of the key, and those that follow, so that FindShare, under locks, need not. At
  // any time.
  void Prepare(const Key& key, size_t bins);
  bool pending() const { return pending_.load(std::memory_order_acquire); }
  // Of a leaf that was looked at and has no Mnode in the tree yet. FailedPrecondition: it has fewer
  // slots than it had.
  absl::Status FindShare(const Looked<C>& looked, Share* share);
  // Into the buffer of the leaf, which is locked, and as FindShare has seen it.
  void Take(Worker& worker, Mnode<C>* leaf, const Share& share);
  // All leaves to the left of the key have been touched.
  void ForgetBelow(const Key& key);
  // All leaves have. DataLoss if an entry without a whole record is not dead.
  absl::Status End();

  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  // Entries without a whole record, of one key word.
  struct Doubtful {
    uint64_t word;
    std::vector<std::pair<FoundEntry, uint32_t>> entries;
    std::atomic<uint64_t> watermark{0};  // the largest of a leaf of the word
  };
  struct Bin {
    std::mutex mutex;
    std::atomic<bool> ordered{false};
    std::vector<Entry> entries;  // by key, of each the newest first
  };
  struct State;
  // What a task has of one log, used again for the next.
  struct Readable {
    std::vector<typename BinBorders<C>::Probe> keys;
    std::vector<uint32_t> positions;  // of each
    std::vector<size_t> bins;         // of each
    std::vector<typename LogEntries<C>::InlineKey> texts;
  };

  absl::Status ReadPart(Part logs, size_t part);
  absl::Status FindKeys(const std::vector<FoundEntry>& entries, uint32_t log, size_t part,
                        Readable* readable);
  absl::Status NoteUnreadable(const FoundEntry& entry, uint32_t log, size_t part);
  void DrawBorders();
  void DropGroups();
  void FetchRecords(const std::vector<FoundEntry>& entries) const;
  void GroupDoubtful();
  void NoteWatermark(const Looked<C>& looked, uint64_t watermark);
  const std::vector<Entry>& Ordered(size_t bin);
  void FillBin(size_t number, Bin* bin) const;
  void Order(std::vector<Entry>* entries) const;
  Key KeyOf(const Entry& entry, char (&scratch)[8]) const;
  bool IsBelow(const Entry& entry, Separator separator) const;
  void Judge(const Entry* begin, const Entry* end, uint64_t watermark, Share* share) const;
  absl::Status FindRoom(const Looked<C>& looked, const Share& share) const;

  TreeState<C>& tree_;
  std::unique_ptr<State> state_;      // null: nothing is pending
  std::atomic<bool> pending_{false};  // false: nobody begins to prepare any more
  std::atomic<unsigned> preparing_{0};
  size_t forgotten_ = 0;  // so many bins, of the sweep
  std::atomic<uint64_t> dropped_{0};
  std::atomic<uint64_t> taken_{0};
};

}  // namespace lodgekv::sptree
