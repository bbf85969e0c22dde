// What recovery finds in a tree's logs: the entries that no leaf contains yet.
//
// Such an entry has a number above the watermark of the leaf that its key belongs to. An entry
// without a whole record is dead, since the record's space was reused; or it belongs to a group
// whose fence was not reached, which then was not acknowledged and is dropped as a whole. The
// horizon distinguishes the two (fence_horizon.h). Anything else is damage, and the pool is
// refused.
//
// Invariants
//  1. What is accepted from a log is flushed, with the records that its last group names (Settler).
//  2. A group that is dropped although its entries are whole is made unreadable, for good: a later
//     recovery may no longer find the record that proves it unfenced, and would accept the rest.
//  3. The candidates of a part are ordered by key, and those of one key from the newest to the
//     oldest.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "index/engine_info.h"
#include "index/node/append_log.h"
#include "index/node/codec.h"
#include "index/node/fence_horizon.h"
#include "index/node/log_layout.h"
#include "index/node/record.h"
#include "index/node/recovery_tasks.h"
#include "index/pmem/crash_point.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"

namespace lodgekv {

// What the recovery of logs works on; all of it belongs to the tree.
template <class C>
struct LogRecovery {
  pmem::Pool& pool;
  pmem::RecordSlab& slab;
  const C& codec;
  AppendLog& log;
  FenceHorizon& horizon;
  const Settler& settler;
  const EngineContext& context;
  std::string_view engine;  // in messages about damage

  absl::Status Damaged(std::string_view what, pmem::Offset offset) const {
    return DamagedPool(engine, what, offset);
  }
  template <class Task>
  absl::Status Parallel(size_t tasks, Task task) const {
    return RunTasks(tasks, context.recovery_threads, task);
  }
  bool Canary(std::string_view name) const { return pool.medium().Canary(name); }
};

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
  struct InlineKey {
    char bytes[8];
  };
  // What a task has read from its logs.
  struct LogPart {
    std::vector<Candidate> candidates;
    std::vector<Logged> unreadable;     // entries whose record is not whole
    std::vector<Logged> applied;        // entries with an applied index
    std::deque<InlineKey> inline_keys;  // of candidates without a record
  };

  LogContents(const LogRecovery<C>& with, const Tree& tree)
      : with_(with), medium_(with.pool.medium()), tree_(tree) {}

  // Reads all logs, and keeps the entries that are valid.
  absl::Status Read();

  const std::vector<FoundLog>& logs() const { return logs_; }
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
  static constexpr uint64_t kMix = 0x9E3779B97F4A7C15ull;
  using NewestByTag = std::unordered_map<uint64_t, uint64_t>;

  absl::Status ReadLogs();
  absl::Status ReadOneLog(uint32_t log, LogPart* part);
  bool KeyOf(const FoundEntry& entry, LogPart* part, Key* key);
  bool KeyOfRecord(const FoundEntry& entry, Key* key);
  absl::Status ExplainUnreadable();
  absl::Status ExplainShare(size_t share, size_t shares);
  NewestByTag NewestOfShare(size_t share, size_t shares) const;
  uint64_t FencedBelow() const;
  absl::Status DropGroups();
  void SpoilDroppedGroups();
  void SpoilLastGroup(const FoundLog& log);
  static bool IsOfShare(const FoundEntry& entry, size_t share, size_t shares) {
    return (entry.pair.key * kMix >> 32) % shares == share;
  }
  // Of {key word, hash}.
  uint64_t TagOf(const FoundEntry& entry) const {
    return entry.pair.key * kMix + with_.codec.HashOf(entry.pair);
  }

  const LogRecovery<C> with_;
  pmem::Medium& medium_;
  const Tree& tree_;
  std::vector<FoundLog> logs_;
  std::vector<LogPart> parts_;
  std::vector<uint8_t> tail_dropped_;  // by log: its last fence group was never fenced
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
  logs_ = with_.log.FindLogs(with_.context.recovery_threads);
  parts_.resize(PartsOf(logs_.size(), kLogsPerTask, kMostTasks));
  PhaseProgress progress(with_.context.progress, "logs", logs_.size());
  return with_.Parallel(parts_.size(), [&](size_t task) {
    const Part logs = Part::Of(logs_.size(), parts_.size(), task);
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
  std::string problem;
  if (!with_.log.ReadLog(logs_[log], &entries, &problem)) return absl::DataLossError(problem);
  with_.settler.Settle(with_.pool.template At<char>(logs_[log].offset),
                       sizeof(media::LogHeader) + entries.size() * sizeof(media::LogEntry));
  for (const FoundEntry& entry : entries) {
    if (entry.op == LogOp::kAppliedIndex) {
      part->applied.push_back({entry, log});
      continue;
    }
    Key key;
    if (!KeyOf(entry, part, &key)) {
      part->unreadable.push_back({entry, log});
      if (with_.Canary("node.log_replay.stops_at_hole")) break;
    } else if (entry.sequence > tree_.WatermarkFor(key) ||
               with_.Canary("node.log_replay.no_watermark")) {
      part->candidates.push_back({entry, key, log});
    }
  }
  return absl::OkStatus();
}

// False: its record is not whole.
template <class C, class Tree>
bool LogContents<C, Tree>::KeyOf(const FoundEntry& entry, LogPart* part, Key* key) {
  if constexpr (C::kRecords) {
    if (C::IsRecord(entry.pair.value)) return KeyOfRecord(entry, key);
    auto& text = part->inline_keys.emplace_back();
    *key = C::MakeKey(with_.codec.KeyText(entry.pair, text.bytes));
  } else {
    *key = C::KeyOfWord(entry.pair.key);
  }
  return true;
}

template <class C, class Tree>
bool LogContents<C, Tree>::KeyOfRecord(const FoundEntry& entry, Key* key) {
  RecordView view;
  const pmem::Offset record = C::RecordOf(entry.pair.value);
  if (!VerifyRecord(with_.pool, with_.slab, record, &view)) return false;
  if (view.crc != entry.record_crc && !with_.Canary("node.log_replay.any_record")) return false;
  if (entry.in_last_group) {
    with_.settler.Settle(with_.pool.template At<char>(record),
                         RecordBytes(view.key.size(), view.value.size(), view.expiry_unix_ms != 0));
  }
  *key = C::MakeKey(view.key);
  return true;
}

// --- entries without a whole record ---

// The canary believes leaves and newer entries alone.
template <class C, class Tree>
uint64_t LogContents<C, Tree>::FencedBelow() const {
  if (with_.Canary("node.log_replay.no_horizon")) return UINT64_MAX;
  return with_.horizon.fenced_below();
}

// An entry without a whole record is dead, because its record was freed: then its number is below
// the horizon. Or its fence group was never fenced: then the whole group was not acknowledged, and
// is dropped. No leaf and no other entry can distinguish the two, since other threads may have
// written newer numbers meanwhile.
template <class C, class Tree>
absl::Status LogContents<C, Tree>::ExplainUnreadable() {
  const bool none = std::all_of(parts_.begin(), parts_.end(),
                                [](const LogPart& part) { return part.unreadable.empty(); });
  if (none) return absl::OkStatus();
  tail_dropped_.assign(logs_.size(), 0);
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
  const uint64_t fenced_below = FencedBelow();
  for (const LogPart& part : parts_) {
    for (const auto& [entry, log] : part.unreadable) {
      if (!IsOfShare(entry, share, shares)) continue;
      const bool fenced = entry.sequence < fenced_below;
      if (fenced && (newest[TagOf(entry)] > entry.sequence || tree_.IsDead(entry))) continue;
      if (fenced || !entry.in_last_group || with_.pool.was_clean()) {
        return with_.Damaged("a log entry whose record is damaged, in the log", logs_[log].offset);
      }
      std::atomic_ref(tail_dropped_[log]).store(1, std::memory_order_relaxed);
      dropped_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return absl::OkStatus();
}

// Drops the rest of each group of which an entry was dropped.
template <class C, class Tree>
absl::Status LogContents<C, Tree>::DropGroups() {
  const auto dropped = [this](const auto& logged) {
    return tail_dropped_[logged.log] != 0 && logged.entry.in_last_group;
  };
  const absl::Status status = with_.Parallel(parts_.size(), [&](size_t task) {
    dropped_.fetch_add(std::erase_if(parts_[task].candidates, dropped), std::memory_order_relaxed);
    std::erase_if(parts_[task].applied, dropped);
    return absl::OkStatus();
  });
  SpoilDroppedGroups();
  return status;
}

// This decision must be repeated after any later crash. By then the entry that proves it may be
// dead (its key written again, and in its leaf), and the rest of its group would come back.
template <class C, class Tree>
void LogContents<C, Tree>::SpoilDroppedGroups() {
  for (size_t log = 0; log < logs_.size(); ++log) {
    if (tail_dropped_[log] != 0) SpoilLastGroup(logs_[log]);
  }
  LODGEKV_CRASH_POINT(medium_, "node.log_replay.1");
  medium_.Fence();
}

// Makes its first entry unreadable.
template <class C, class Tree>
void LogContents<C, Tree>::SpoilLastGroup(const FoundLog& log) {
  std::vector<FoundEntry> entries;
  std::string problem;
  if (!with_.log.ReadLog(log, &entries, &problem)) return;
  const auto first = std::find_if(entries.begin(), entries.end(),
                                  [](const FoundEntry& entry) { return entry.in_last_group; });
  auto* entry = with_.pool.template At<media::LogEntry>(log.offset + sizeof(media::LogHeader)) +
                (first - entries.begin());
  medium_.Store(entry->checksums, ~entry->checksums.Load());
  medium_.FlushLine(entry);
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
