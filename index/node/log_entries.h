// The entries of a tree's logs, as recovery reads them, and what may be believed of them.
//
// An entry without a whole record is dead, since the record's space was reused; or it belongs to a
// group whose fence was not reached, which then was not acknowledged and is dropped as a whole. The
// horizon distinguishes the two (fence_horizon.h): no leaf and no other entry can, since other
// threads may have written newer numbers meanwhile. That a fenced one is dead, a newer entry or the
// watermark of its leaf must say; anything else is damage.
//
// Invariants
//  1. What is accepted from a log is flushed, with the records that its last group names (Settler):
//     each thread fences a group before it writes the next one to the same log.
//  2. A group that is dropped although its entries are whole is made unreadable, for good: a later
//     recovery may no longer find the record that proves it unfenced, and would accept the rest.
//
// Thread-safe for different logs, but for FindLogs, SpoilDroppedGroups and Keep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

template <class C>
class LogEntries {
 public:
  using Key = typename C::Key;
  struct InlineKey {
    char bytes[8];
  };
  static constexpr uint64_t kMix = 0x9E3779B97F4A7C15ull;

  explicit LogEntries(const LogRecovery<C>& with) : with_(with) {}

  void FindLogs() {
    logs_ = with_.log.FindLogs(with_.context.recovery_threads);
    tail_dropped_.assign(logs_.size(), 0);
  }
  const std::vector<FoundLog>& logs() const { return logs_; }

  // All entries up to the tail, by position. DataLoss: a hole that no crash leaves.
  absl::Status ReadLog(uint32_t log, std::vector<FoundEntry>* entries) const;
  static bool HasInlineKey(const FoundEntry& entry) {
    if constexpr (C::kRecords) return !C::IsRecord(entry.pair.value);
    return false;
  }
  // False: its record is not whole. The key is valid as long as the record, or `text`, which an
  // inline one needs.
  bool KeyOf(const FoundEntry& entry, InlineKey* text, Key* key) const;
  // Of {key word, hash}.
  uint64_t TagOf(const FoundEntry& entry) const {
    return entry.pair.key * kMix + with_.codec.HashOf(entry.pair);
  }

  // --- of entries without a whole record ---
  // Then it must be dead.
  bool WasFenced(const FoundEntry& entry) const { return entry.sequence < FencedBelow(); }
  // Of one that was not. False: that is no group whose fence a crash has kept from being reached.
  bool DropGroupOf(const FoundEntry& entry, uint32_t log) {
    if (!entry.in_last_group || with_.pool.was_clean()) return false;
    std::atomic_ref(tail_dropped_[log]).store(1, std::memory_order_relaxed);
    return true;
  }
  bool LastGroupIsDropped(uint32_t log) const { return tail_dropped_[log] != 0; }
  bool IsDropped(const FoundEntry& entry, uint32_t log) const {
    return LastGroupIsDropped(log) && entry.in_last_group;
  }
  absl::Status DamagedRecord(uint32_t log) const {
    return with_.Damaged("a log entry whose record is damaged, in the log", logs_[log].offset);
  }
  void SpoilDroppedGroups();

  // Keeps the logs of which entries are still needed, `valid` by log, under new numbers.
  absl::Status Keep(std::span<const uint32_t> valid, std::vector<uint32_t>* ids);

 private:
  static constexpr size_t kLogsPerTask = 65536;

  bool KeyOfRecord(const FoundEntry& entry, Key* key) const;
  // The canary believes leaves and newer entries alone.
  uint64_t FencedBelow() const {
    if (with_.Canary("node.log_replay.no_horizon")) return UINT64_MAX;
    return with_.horizon.fenced_below();
  }
  void SpoilLastGroup(const FoundLog& log);

  const LogRecovery<C> with_;
  std::vector<FoundLog> logs_;
  std::vector<uint8_t> tail_dropped_;  // by log: its last fence group was never fenced
};

template <class C>
absl::Status LogEntries<C>::ReadLog(uint32_t log, std::vector<FoundEntry>* entries) const {
  std::string problem;
  if (!with_.log.ReadLog(logs_[log], entries, &problem)) return absl::DataLossError(problem);
  const char* header = with_.pool.template At<char>(logs_[log].offset);
  with_.settler.Settle(header, sizeof(media::LogHeader));
  const auto last = std::find_if(entries->begin(), entries->end(),
                                 [](const FoundEntry& entry) { return entry.in_last_group; });
  const auto before = static_cast<size_t>(last - entries->begin());
  with_.settler.Settle(header + sizeof(media::LogHeader) + before * sizeof(media::LogEntry),
                       (entries->size() - before) * sizeof(media::LogEntry));
  return absl::OkStatus();
}

template <class C>
bool LogEntries<C>::KeyOf(const FoundEntry& entry, InlineKey* text, Key* key) const {
  if constexpr (C::kRecords) {
    if (C::IsRecord(entry.pair.value)) return KeyOfRecord(entry, key);
    *key = C::MakeKey(with_.codec.KeyText(entry.pair, text->bytes));
  } else {
    *key = C::KeyOfWord(entry.pair.key);
  }
  return true;
}

template <class C>
bool LogEntries<C>::KeyOfRecord(const FoundEntry& entry, Key* key) const {
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

// This decision must be repeated after any later crash. By then the entry that proves it may be
// dead (its key written again, and in its leaf), and the rest of its group would come back.
template <class C>
void LogEntries<C>::SpoilDroppedGroups() {
  for (size_t log = 0; log < logs_.size(); ++log) {
    if (tail_dropped_[log] != 0) SpoilLastGroup(logs_[log]);
  }
  pmem::Medium& medium = with_.pool.medium();
  LODGEKV_CRASH_POINT(medium, "node.log_replay.1");
  medium.Fence();
}

// Makes its first entry unreadable.
template <class C>
void LogEntries<C>::SpoilLastGroup(const FoundLog& log) {
  std::vector<FoundEntry> entries;
  std::string problem;
  if (!with_.log.ReadLog(log, &entries, &problem)) return;
  const auto first = std::find_if(entries.begin(), entries.end(),
                                  [](const FoundEntry& entry) { return entry.in_last_group; });
  auto* entry = with_.pool.template At<media::LogEntry>(log.offset + sizeof(media::LogHeader)) +
                (first - entries.begin());
  with_.pool.medium().Store(entry->checksums, ~entry->checksums.Load());
  with_.pool.medium().FlushLine(entry);
}

template <class C>
absl::Status LogEntries<C>::Keep(std::span<const uint32_t> valid, std::vector<uint32_t>* ids) {
  const size_t logs = valid.size();
  const auto unneeded = std::count(valid.begin(), valid.end(), 0u);
  uint32_t id = with_.log.TakeIds(static_cast<uint32_t>(logs) - static_cast<uint32_t>(unneeded));
  if (id == AppendLog::kNoLog) return with_.Damaged("more logs than it has room for", 0);
  ids->assign(logs, AppendLog::kNoLog);
  for (size_t log = 0; log < logs; ++log) {
    if (valid[log] != 0) (*ids)[log] = id++;
  }
  const size_t tasks = PartsOf(logs, kLogsPerTask);
  const bool uncounted = with_.Canary("node.log_replay.not_counted");
  return with_.Parallel(tasks, [&](size_t task) {
    const Part part = Part::Of(logs, tasks, task);
    for (size_t log = part.begin; log < part.end; ++log) {
      if (valid[log] != 0) with_.log.Keep((*ids)[log], logs_[log], uncounted ? 0 : valid[log]);
    }
    return absl::OkStatus();
  });
}

}  // namespace lodgekv
