// Replay by watermark, the recovery of a tree whose writes are in its log before they are in its
// leaves: of the entries that no leaf contains yet, the newest of each key is applied again.
//
// Tasks read logs and sort what they find by key (log_contents.h); other tasks then collect, from
// all of these lists, what belongs to their ranges of keys. So from there on no two tasks work in
// the same range.
//
// Invariants
//  1. Of each key one entry is replayed: the one with the largest number. Within a range they are
//     replayed in order of their numbers, so a leaf that is written meanwhile contains every older
//     one, and its watermark is true.
//  2. A log is kept if an entry of it is replayed, or if it holds the newest applied index, and
//     counts that many entries as valid; the others are free.
//  3. Before any space is freed because neither an entry nor a leaf refers to it, the horizon is
//     above all old numbers.
//
// It may be interrupted anywhere and repeated: except for the groups that log_contents.h spoils,
// all changes on the medium are made by the tree, by its own protocols.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "index/node/log_contents.h"

namespace lodgekv {

// What it requires of a tree, in addition to what log_contents.h does:
//   size_t ranges() const                       into so many its keys fall, in their order
//   bool LiesBefore(const Key&, size_t) const   the key is to the left of that range
//   bool HasPair(const Key&, Pair) const        the key's leaf has this very pair (codecs with
//                                               records)
//   Tree::Replayer                              made of the tree by each task:
//     absl::Status Apply(const FoundEntry&, const Key&, uint32_t log)     does an entry of that log
//     void End()                                                          of the task
template <class C, class Tree>
class LogReplay {
 public:
  using Key = typename C::Key;

  LogReplay(const LogRecovery<C>& with, Tree& tree)
      : with_(with), tree_(tree), contents_(with, tree) {}

  // Decides what is to be replayed, marks its records and keeps its logs. After that everything
  // that is not marked is free.
  absl::Status Choose();
  absl::Status Replay();

  // --- after Choose ---
  uint64_t entries() const { return entries_; }
  uint64_t dropped() const { return contents_.dropped(); }
  // The newest applied index, and the log that holds it; kNoLog: it is in the pool's own word.
  uint64_t applied_index() const { return applied_index_; }
  uint32_t applied_log() const { return applied_log_; }
  // --- after Replay ---
  unsigned threads() const { return static_cast<unsigned>(replayers_.size()); }

 private:
  using Contents = LogContents<C, Tree>;
  using Candidate = typename Contents::Candidate;
  static constexpr size_t kRangesPerTask = 256;
  static constexpr size_t kMostTasks = 1024;

  absl::Status ChooseWinners();
  std::vector<Candidate> WinnersOf(Part ranges) const;
  absl::Status MarkWinners();
  absl::Status MarkWinner(const Candidate& winner) const;
  absl::Status KeepLogs();
  absl::Status ReplayPart(std::vector<Candidate> winners);

  const LogRecovery<C> with_;
  Tree& tree_;
  Contents contents_;
  std::vector<std::vector<Candidate>> winners_;  // by equal parts of the ranges
  std::vector<uint32_t> valid_;                  // by log: entries that are still needed
  std::vector<uint32_t> log_ids_;                // by log
  uint64_t entries_ = 0;
  uint64_t applied_index_ = 0;
  uint32_t applied_log_ = AppendLog::kNoLog;
  std::mutex mutex_;
  std::set<std::thread::id> replayers_;
};

template <class C, class Tree>
absl::Status LogReplay<C, Tree>::Choose() {
  absl::Status status = contents_.Read();
  if (status.ok()) status = ChooseWinners();
  if (status.ok()) status = MarkWinners();
  if (status.ok()) status = KeepLogs();
  if (!status.ok()) return status;
  for (const auto& winners : winners_) entries_ += winners.size();
  if constexpr (C::kRecords) {
    // What is not reached is freed from here on, and what was not fenced is dropped.
    if (!with_.horizon.Raise(with_.pool.PeekSequence())) {
      return absl::UnavailableError("a sync of the medium has failed");
    }
  }
  return absl::OkStatus();
}

// --- the newest entry of each key ---

template <class C, class Tree>
absl::Status LogReplay<C, Tree>::ChooseWinners() {
  winners_.resize(PartsOf(tree_.ranges(), kRangesPerTask, kMostTasks));
  const absl::Status status = with_.Parallel(winners_.size(), [&](size_t task) {
    winners_[task] = WinnersOf(Part::Of(tree_.ranges(), winners_.size(), task));
    return absl::OkStatus();
  });
  contents_.ForgetCandidates();
  return status;
}

// The newest entries among what all tasks have read for these ranges.
template <class C, class Tree>
std::vector<typename LogReplay<C, Tree>::Candidate> LogReplay<C, Tree>::WinnersOf(
    Part ranges) const {
  const auto border = [this](const std::vector<Candidate>& candidates, size_t range) {
    if (range == 0) return candidates.begin();
    if (range == tree_.ranges()) return candidates.end();
    return std::partition_point(
        candidates.begin(), candidates.end(),
        [&](const Candidate& candidate) { return tree_.LiesBefore(candidate.key, range); });
  };
  std::vector<Candidate> winners;
  for (const auto& part : contents_.parts()) {
    winners.insert(winners.end(), border(part.candidates, ranges.begin),
                   border(part.candidates, ranges.end));
  }
  const bool by_log = contents_.by_log();
  std::sort(winners.begin(), winners.end(), [by_log](const Candidate& a, const Candidate& b) {
    return Contents::Precedes(a, b, by_log);
  });
  winners.erase(std::unique(winners.begin(), winners.end(), Contents::AreOfOneKey), winners.end());
  return winners;
}

// --- what they keep ---

template <class C, class Tree>
absl::Status LogReplay<C, Tree>::MarkWinners() {
  valid_.assign(contents_.logs().size(), 0);
  return with_.Parallel(winners_.size(), [&](size_t task) {
    for (const Candidate& winner : winners_[task]) {
      std::atomic_ref(valid_[winner.log]).fetch_add(1, std::memory_order_relaxed);
      const absl::Status marked = MarkWinner(winner);
      if (!marked.ok()) return marked;
    }
    return absl::OkStatus();
  });
}

template <class C, class Tree>
absl::Status LogReplay<C, Tree>::MarkWinner(const Candidate& winner) const {
  if constexpr (C::kRecords) {
    using Result = pmem::UnitArena::MarkResult;
    const Pair pair = winner.entry.pair;
    if (!C::IsRecord(pair.value)) return absl::OkStatus();
    const Result result = with_.slab.Mark(C::RecordOf(pair.value));
    if (result == Result::kMarked) return absl::OkStatus();
    // A leaf whose watermark was not durable may already contain it.
    if (result == Result::kTwice && tree_.HasPair(winner.key, pair)) return absl::OkStatus();
    return with_.Damaged("a log entry whose record is another's",
                         contents_.logs()[winner.log].offset);
  }
  return absl::OkStatus();
}

// Logs with a winner, or with the applied index.
template <class C, class Tree>
absl::Status LogReplay<C, Tree>::KeepLogs() {
  const auto* applied = contents_.NewestAppliedIndex();
  if (applied != nullptr) ++valid_[applied->log];
  const absl::Status status = contents_.entries().Keep(valid_, &log_ids_);
  if (!status.ok()) return status;
  applied_index_ = applied != nullptr ? applied->entry.pair.key : with_.pool.applied_index();
  if (applied != nullptr) applied_log_ = log_ids_[applied->log];
  return status;
}

// --- replay ---

template <class C, class Tree>
absl::Status LogReplay<C, Tree>::Replay() {
  PhaseProgress progress(with_.context.progress, "log", entries_);
  return with_.Parallel(winners_.size(), [&](size_t task) {
    const uint64_t entries = winners_[task].size();
    const absl::Status replayed = ReplayPart(std::move(winners_[task]));
    progress.Add(entries);
    return replayed;
  });
}

template <class C, class Tree>
absl::Status LogReplay<C, Tree>::ReplayPart(std::vector<Candidate> winners) {
  const bool by_key = with_.Canary("node.log_replay.replay_by_key");
  std::sort(winners.begin(), winners.end(), [by_key](const Candidate& a, const Candidate& b) {
    return by_key ? a.key.word < b.key.word : a.entry.sequence < b.entry.sequence;
  });
  typename Tree::Replayer replayer(tree_);
  for (const Candidate& winner : winners) {
    const absl::Status status = replayer.Apply(winner.entry, winner.key, log_ids_[winner.log]);
    if (!status.ok()) return status;
  }
  replayer.End();
  const std::lock_guard lock(mutex_);
  replayers_.insert(std::this_thread::get_id());
  return absl::OkStatus();
}

}  // namespace lodgekv
