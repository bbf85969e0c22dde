// What recovery finds in a tree's logs: the entries that no leaf contains yet.
//
// Such an entry has a number above the watermark of the leaf that its key belongs to. What may be
// believed of entries at all is decided as log_entries.h says; those that leaves and newer entries
// must explain are explained here, since all leaves are known. What is not explained is damage, and
// the pool is refused.
//
// INVARIANT: the candidates of a part are ordered by key, and those of one key from the newest to
// the oldest.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "index/node/codec.h"
#include "index/node/log_entries.h"
#include "index/node/recovery_tasks.h"

namespace lodgekv {

// What it requires of a tree:
//   uint64_t WatermarkFor(const Key& key) const    of the leaf whose range has the key
//   bool IsDead(const FoundEntry& entry) const     a leaf that may hold the key, of which the entry
//                                                  has the first word alone, has a watermark that
//                                                  is no lower (codecs with records)
template <class C, class Tree>
class LogContents {
 public:
  using Key = typename C::Key;
  struct Candidate {
    FoundEntry entry;
    Key key;
    uint32_t log;  // index into logs()
  };
  struct Logged {
    FoundEntry entry;
    uint32_t log;
  };
  using InlineKey = typename LogEntries<C>::InlineKey;
  // What a task has read from its logs.
  struct LogPart {
    std::vector<Candidate> candidates;
    std::vector<Logged> unreadable;     // entries whose record is not whole
    std::vector<Logged> applied;        // entries with an applied index
    std::deque<InlineKey> inline_keys;  // of candidates without a record
  };

  LogContents(const LogRecovery<C>& with, const Tree& tree)
      : with_(with), entries_(with), tree_(tree) {}

  // Reads all logs, and keeps the entries that are valid.
  absl::Status Read();

  LogEntries<C>& entries() { return entries_; }
  const std::vector<FoundLog>& logs() const { return entries_.logs(); }
  const std::vector<LogPart>& parts() const { return parts_; }
  // The number of entries dropped because their groups were never fenced.
  uint64_t dropped() const { return dropped_.load(); }
  // Null: the pool's own word is newer, or there is none.
  const Logged* NewestAppliedIndex() const;
  // The caller has copied the candidates; their texts are still needed.
  void ForgetCandidates() {
    for (LogPart& part : parts_) std::vector<Candidate>().swap(part.candidates);
  }

  // Orders by key, the newest first. Words decide except for ties: the texts are in the records.
  static bool Precedes(const Candidate& a, const Candidate& b, bool by_log);
  static bool AreOfOneKey(const Candidate& a, const Candidate& b);
  // The canary takes the last log's entry for the newest.
  bool by_log() const { return with_.Canary("node.log_replay.order_by_log"); }

 private:
  // Each task has a list of its own, which later tasks search for their part: so the number of
  // tasks is limited.
  static constexpr size_t kLogsPerTask = 256;
  static constexpr size_t kMostTasks = 512;
  using NewestByTag = std::unordered_map<uint64_t, uint64_t>;

  absl::Status ReadLogs();
  absl::Status ReadOneLog(uint32_t log, LogPart* part);
  absl::Status ExplainUnreadable();
  absl::Status ExplainShare(size_t share, size_t shares);
  NewestByTag NewestOfShare(size_t share, size_t shares) const;
  absl::Status DropGroups();
  static bool IsOfShare(const FoundEntry& entry, size_t share, size_t shares) {
    return (entry.pair.key * LogEntries<C>::kMix >> 32) % shares == share;
  }
  uint64_t TagOf(const FoundEntry& entry) const { return entries_.TagOf(entry); }

  const LogRecovery<C> with_;
  LogEntries<C> entries_;
  const Tree& tree_;
  std::vector<LogPart> parts_;
  std::atomic<uint64_t> dropped_{0};
};

template <class C, class Tree>
absl::Status LogContents<C, Tree>::Read() {
  absl::Status status = ReadLogs();
  if constexpr (C::kRecords) {
    if (status.ok()) status = ExplainUnreadable();
  }
  return status;
}

// --- reading ---

template <class C, class Tree>
absl::Status LogContents<C, Tree>::ReadLogs() {
  entries_.FindLogs();
  parts_.resize(PartsOf(logs().size(), kLogsPerTask, kMostTasks));
  PhaseProgress progress(with_.context.progress, "logs", logs().size());
  return with_.Parallel(parts_.size(), [&](size_t task) {
    const Part logs = Part::Of(entries_.logs().size(), parts_.size(), task);
    LogPart& part = parts_[task];
    for (size_t log = logs.begin; log < logs.end; ++log) {
      const absl::Status status = ReadOneLog(static_cast<uint32_t>(log), &part);
      if (!status.ok()) return status;
    }
    with_.settler.EndThread();
    std::sort(part.candidates.begin(), part.candidates.end(),
              [by_log = by_log()](const Candidate& a, const Candidate& b) {
                return Precedes(a, b, by_log);
              });
    progress.Add(logs.end - logs.begin);
    return absl::OkStatus();
  });
}

template <class C, class Tree>
absl::Status LogContents<C, Tree>::ReadOneLog(uint32_t log, LogPart* part) {
  std::vector<FoundEntry> entries;
  const absl::Status status = entries_.ReadLog(log, &entries);
  if (!status.ok()) return status;
  for (const FoundEntry& entry : entries) {
    if (entry.op == LogOp::kAppliedIndex) {
      part->applied.push_back({entry, log});
      continue;
    }
    Key key;
    InlineKey* text = nullptr;
    if (LogEntries<C>::HasInlineKey(entry)) text = &part->inline_keys.emplace_back();
    if (!entries_.KeyOf(entry, text, &key)) {
      part->unreadable.push_back({entry, log});
      if (with_.Canary("node.log_replay.stops_at_hole")) break;
    } else if (entry.sequence > tree_.WatermarkFor(key) ||
               with_.Canary("node.log_replay.no_watermark")) {
      part->candidates.push_back({entry, key, log});
    }
  }
  return absl::OkStatus();
}

// --- entries without a whole record ---

template <class C, class Tree>
absl::Status LogContents<C, Tree>::ExplainUnreadable() {
  const bool none = std::all_of(parts_.begin(), parts_.end(),
                                [](const LogPart& part) { return part.unreadable.empty(); });
  if (none) return absl::OkStatus();
  const size_t shares = std::max(1u, with_.context.recovery_threads);
  const absl::Status status =
      with_.Parallel(shares, [&](size_t share) { return ExplainShare(share, shares); });
  return status.ok() ? DropGroups() : status;
}

// The newest entry of each {key word, hash} of an unreadable entry: it supersedes the older ones.
// Only for key words of this share.
template <class C, class Tree>
typename LogContents<C, Tree>::NewestByTag LogContents<C, Tree>::NewestOfShare(
    size_t share, size_t shares) const {
  NewestByTag newest;
  for (const LogPart& part : parts_) {
    for (const Logged& logged : part.unreadable) {
      if (!IsOfShare(logged.entry, share, shares)) continue;
      uint64_t& sequence = newest[TagOf(logged.entry)];
      sequence = std::max(sequence, logged.entry.sequence);
    }
  }
  for (const LogPart& part : parts_) {
    for (const Candidate& candidate : part.candidates) {
      if (!IsOfShare(candidate.entry, share, shares)) continue;
      const auto found = newest.find(TagOf(candidate.entry));
      if (found != newest.end()) found->second = std::max(found->second, candidate.entry.sequence);
    }
  }
  return newest;
}

template <class C, class Tree>
absl::Status LogContents<C, Tree>::ExplainShare(size_t share, size_t shares) {
  NewestByTag newest = NewestOfShare(share, shares);
  for (const LogPart& part : parts_) {
    for (const auto& [entry, log] : part.unreadable) {
      if (!IsOfShare(entry, share, shares)) continue;
      const bool fenced = entries_.WasFenced(entry);
      if (fenced && (newest[TagOf(entry)] > entry.sequence || tree_.IsDead(entry))) continue;
      if (fenced || !entries_.DropGroupOf(entry, log)) return entries_.DamagedRecord(log);
      dropped_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return absl::OkStatus();
}

// Drops the rest of each group of which an entry was dropped.
template <class C, class Tree>
absl::Status LogContents<C, Tree>::DropGroups() {
  const auto dropped = [this](const auto& logged) {
    return entries_.IsDropped(logged.entry, logged.log);
  };
  const absl::Status status = with_.Parallel(parts_.size(), [&](size_t task) {
    dropped_.fetch_add(std::erase_if(parts_[task].candidates, dropped), std::memory_order_relaxed);
    std::erase_if(parts_[task].applied, dropped);
    return absl::OkStatus();
  });
  entries_.SpoilDroppedGroups();
  return status;
}

// --- what was found ---

template <class C, class Tree>
bool LogContents<C, Tree>::AreOfOneKey(const Candidate& a, const Candidate& b) {
  if (a.key.word != b.key.word) return false;
  if constexpr (C::kRecords) return a.key.text == b.key.text;
  return true;
}

template <class C, class Tree>
bool LogContents<C, Tree>::Precedes(const Candidate& a, const Candidate& b, bool by_log) {
  if (a.key.word != b.key.word) return a.key.word < b.key.word;
  if constexpr (C::kRecords) {
    const int order = a.key.text.compare(b.key.text);
    if (order != 0) return order < 0;
  }
  if (by_log && a.log != b.log) return a.log > b.log;
  return a.entry.sequence > b.entry.sequence;
}

template <class C, class Tree>
const typename LogContents<C, Tree>::Logged* LogContents<C, Tree>::NewestAppliedIndex() const {
  const Logged* newest = nullptr;
  for (const LogPart& part : parts_) {
    for (const Logged& applied : part.applied) {
      if (applied.entry.pair.key < with_.pool.applied_index()) continue;
      if (newest == nullptr || newest->entry.pair.key < applied.entry.pair.key) newest = &applied;
    }
  }
  return newest;
}

}  // namespace lodgekv
