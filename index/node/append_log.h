// The append log of a tree whose writes are durable here before they are in their leaves.
//
// Each worker slot owns a partition: a row of logs of L entries. All entries of a log share its
// version. Each log has a count of valid entries, which falls as the tree stops needing entries
// because a leaf or a newer entry holds what they say. At zero the log's space is reused, under a
// new version. The counts are volatile: recovery rebuilds them.
//
// A fence group is what is appended to one log between two fences. Recovery accepts it whole or not
// at all: the group is the intent record of an atomic batch. Writes that need not be atomic may
// share a fence as groups in several logs.
//
// Invariants
//  1. A log's header is durable before its first entry is written.
//  2. The count of an open log, and of each log prepared to follow it, is its valid entries plus
//     the entries not yet written, and has the bit kUnfinished. So an append changes no shared
//     counter, and a log that can still be appended to is not at zero.
//  3. A log's space is reused only after what made its entries superfluous is durable.
//  4. A live log that is closed is in exactly one list, ordered by when it was closed or last
//     chosen; no other log is in any list (closed_logs.cc).
//
// Thread safety: a Partition belongs to the calling thread. Release may be called by any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "index/engine.h"
#include "index/node/codec.h"
#include "index/node/log_layout.h"
#include "index/node/log_reader.h"
#include "index/node/optimistic_section.h"
#include "index/pmem/owned_counter.h"
#include "index/pmem/per_worker.h"
#include "index/pmem/pool.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv {

class AppendLog {
 public:
  static constexpr uint32_t kNoLog = UINT32_MAX;
  // The limit on the bytes of live logs; called at least whenever a log is opened.
  using Limit = std::function<uint64_t()>;

  // `entries` is L. Without `reuse` a partition keeps no free logs.
  AppendLog(pmem::Pool& pool, unsigned entries, Limit limit, bool reuse = true);
  ~AppendLog();

  // Makes sure that the next `count` entries of the calling thread fit into its open log. False:
  // the medium is full. May fence.
  bool ReserveInOneLog(unsigned count, pmem::ReservePolicy policy);
  // The same, but the entries may continue in the logs that follow the open one: ReserveInOneLog(1)
  // switches to the next of them without a fence.
  bool ReserveAcrossLogs(unsigned count, pmem::ReservePolicy policy);
  // Called before `count` entries, for which there is room, are appended: writes the headers of the
  // logs that the next group of the same size will need, so that the headers share the fence of
  // this group. Does nothing in a full pool.
  void PrepareNext(unsigned count, bool in_one_log);
  // The largest count that ReserveInOneLog accepts, and how many entries the open log has room for.
  unsigned largest_group() const { return largest_group_; }
  unsigned OpenRoom() const { return partitions_.Current().Room(); }

  // Appends without a fence what was reserved, and counts the entry as valid. `left` is the number
  // of entries that follow in this fence group.
  uint32_t Append(Pair pair, uint64_t sequence, LogOp op, unsigned left, uint32_t record_crc);

  // One entry of `log` is no longer needed, and what made it unnecessary is durable.
  void Release(uint32_t log);

  // --- emptying old logs (closed_logs.cc) ---
  // A log as it was when it was chosen; its space may have been reused since, under another
  // version.
  struct OldLog {
    uint32_t id = kNoLog;
    FoundLog found{};
  };
  // The number of entries of old logs that the calling thread still has to examine, because it
  // opened logs when live logs were near their limit. TakeOwed returns the share of them that is
  // due for `appended` entries, and subtracts it.
  unsigned owed() const { return partitions_.Current().owed; }
  unsigned TakeOwed(size_t appended);
  // Sets what is owed to 0: there is nothing to examine.
  void Forgive();
  // The closed log that has waited longest; it is moved to the end of the order. False: there is
  // none.
  bool NextToEmpty(OldLog* log);
  bool IsLive(const OldLog& log) const;
  // False: the log has no such entry, or its space was reused.
  bool ReadOld(const OldLog& log, unsigned position, FoundEntry* entry) const {
    // The log may be freed concurrently, and its space reused: the checksum detects that.
    const OptimisticSection section;
    unsigned left;
    return reader_.ReadOne(log.found, position, entry, &left);
  }

  // Calls visit(log, valid) with the number of valid entries of every live log. Entries appended or
  // released meanwhile may be counted or not.
  template <class Visit>
  void VisitLive(Visit visit) const {
    const uint32_t end = ids();
    for (uint32_t id = 0; id < end; ++id) {
      if (ValidOf(id).load(std::memory_order_relaxed) == 0) continue;
      std::optional<uint32_t> valid;
      while (!(valid = TryCount(id))) std::this_thread::yield();
      visit(id, *valid);
    }
  }

  // For Check, while others write: the offset of a closed log of whose header one of the two copies
  // is damaged. 0: there is none under this number.
  pmem::Offset DamagedHeader(uint32_t id) const;
  uint32_t ids() const { return ids_.load(std::memory_order_acquire); }

  // Takes the chunks that are reserved for logs, so that a pool full of pairs still has room to log
  // the writes that free space. Called in a new pool, and by recovery after the last Keep.
  void TakeOwnChunks();

  // --- recovery ---
  // Takes over the pool's log chunks.
  void Adopt(const std::vector<pmem::Chunk>& chunks);
  // Every log with a valid header, by arena and offset.
  std::vector<FoundLog> FindLogs(unsigned threads) const;
  // The entries of a log up to its tail. False: a hole that no crash leaves (`problem` says where).
  bool ReadLog(const FoundLog& log, std::vector<FoundEntry>* entries, std::string* problem) const {
    return reader_.ReadAll(log, entries, problem);
  }
  // One entry of it. False: there is none.
  bool ReadFound(const FoundLog& log, unsigned position, FoundEntry* entry) const {
    unsigned left;
    return reader_.ReadOne(log, position, entry, &left);
  }
  // The first of `count` consecutive new numbers, for the logs to be kept: Keep must be called for
  // each of them. kNoLog: there are not so many.
  uint32_t TakeIds(uint32_t count);
  // Keeps a log, of which `valid` entries are still needed, under number `id`. If a copy of its
  // header is damaged, it is written again, durably. Thread-safe.
  void Keep(uint32_t id, const FoundLog& log, uint32_t valid);
  uint64_t repaired_headers() const { return repaired_headers_.load(std::memory_order_relaxed); }
  // FinishMark of these ends recovery. Until then no log in an adopted chunk is overwritten, also
  // none that was kept and is no longer needed: the next recovery can read them all again.
  std::vector<pmem::UnitArena*> arenas() const;

  struct Counters {
    uint64_t logs_opened = 0;
    uint64_t logs_reused = 0;
  };
  Counters counters() const;
  void VisitCounters(CounterVisitor visitor) const;
  uint64_t live_bytes() const { return live_bytes_.load(std::memory_order_relaxed); }
  uint64_t limit_bytes() const { return limit_(); }
  uint64_t dram_bytes() const;

 private:
  // Closed logs, the one that has waited longest first: those that one thread has closed, or that
  // recovery has kept. With a list for each thread, opening, closing and freeing a log rarely
  // contend.
  struct alignas(pmem::kLineBytes) ClosedList {
    std::mutex mutex;
    uint32_t first = kNoLog;
    uint32_t last = kNoLog;
    std::atomic<uint64_t> oldest{UINT64_MAX};  // `since` of the first
  };
  struct Log {
    std::atomic<pmem::Offset> offset{0};
    std::atomic<uint64_t> version{0};
    std::atomic<uint32_t> entries{0};
    std::atomic<bool> open{false};
    // While it is closed and live: its list, and under the list's mutex its place there.
    ClosedList* list = nullptr;
    uint32_t before = kNoLog;
    uint32_t behind = kNoLog;
    uint64_t since = 0;  // sequence number when it was closed, or last chosen
  };
  // Log numbers are allocated in blocks. The counts are contiguous: a tree may look up one for each
  // of its pairs.
  static constexpr uint32_t kBlock = 256;
  static constexpr uint32_t kUnfinished = uint32_t{1} << 31;
  static constexpr size_t kFreeLogsOfPartition = 4;
  struct Block {
    std::array<std::atomic<uint32_t>, kBlock> valid{};
    std::array<Log, kBlock> logs;
  };
  struct Partition {
    // Read by others in Untaken.
    std::atomic<uint32_t> open{kNoLog};
    std::atomic<uint32_t> position{0};  // of the next entry in `open`
    // Prepared logs, in the order in which they will be opened. Their headers are durable, or
    // become durable with the fence of the entries being written, which do not extend into these
    // logs.
    std::vector<uint32_t> next;
    uint32_t next_long = kNoLog;  // the same, for a group longer than L
    uint32_t entries = 0;         // of `open`
    uint32_t crc_base = 0;
    uint32_t owed = 0;
    pmem::Offset offset = 0;
    alignas(pmem::kLineBytes) LogEntryWords line[2] = {};
    std::vector<uint32_t> free_logs;
    pmem::OwnedCounter opened;
    pmem::OwnedCounter reused;

    Partition() { free_logs.reserve(kFreeLogsOfPartition); }
    uint32_t Open() const { return open.load(std::memory_order_relaxed); }
    uint32_t Position() const { return position.load(std::memory_order_relaxed); }
    uint32_t Room() const { return Open() == kNoLog ? 0 : entries - Position(); }
    // Including the prepared logs, of `each` entries.
    size_t SpreadRoom(unsigned each) const { return Room() + next.size() * each; }
  };

  Log& LogAt(uint32_t id) const {
    return blocks_[id / kBlock].load(std::memory_order_acquire)->logs[id % kBlock];
  }
  std::atomic<uint32_t>& ValidOf(uint32_t id) const {
    return blocks_[id / kBlock].load(std::memory_order_acquire)->valid[id % kBlock];
  }
  // kNoLog: there are no more numbers; every log of the pool has one.
  uint32_t NewLogId();
  uint32_t TakeIdsLocked(uint32_t count);
  std::optional<uint32_t> TryCount(uint32_t id) const;
  uint32_t Untaken(uint32_t id) const;
  void ReleaseMany(uint32_t id, uint32_t count);
  uint32_t OpenLog(Partition& partition, unsigned entries, pmem::ReservePolicy policy);
  // Prepares a log to follow the open one, which is full, unless one is.
  [[gnu::noinline]] void OpenBehind(Partition& partition);
  uint32_t TakeFree(Partition& partition, unsigned entries, pmem::ReservePolicy policy);
  void SwitchTo(Partition& partition, uint32_t id);
  void FenceHeaders();
  bool OpenUpTo(Partition& partition, size_t room, pmem::ReservePolicy policy);
  void FreeLog(uint32_t id);
  uint64_t CurrentLimit() const;
  void Owe(Partition& partition, unsigned entries, uint64_t live) const;
  void AddClosed(uint32_t id);
  void RemoveClosed(uint32_t id);
  void LinkLast(ClosedList& list, uint32_t id);
  void Unlink(ClosedList& list, uint32_t id);
  std::vector<FoundLog> FindLogsIn(const pmem::UnitArena& arena, const pmem::Chunk& chunk) const;
  static uint32_t UnitBytes(unsigned entries) { return FoundLog::UnitBytes(entries); }
  static uint32_t BlockCount(uint64_t logs);
  pmem::UnitArena& ArenaFor(unsigned entries) const {
    return entries == entries_ ? *logs_ : *long_logs_;
  }

  pmem::Pool& pool_;
  pmem::Medium& medium_;
  const LogReader reader_;
  const unsigned entries_;
  const unsigned largest_group_;
  const Limit limit_;
  const size_t kept_logs_;  // free ones of a partition
  std::unique_ptr<pmem::UnitArena> logs_;
  std::unique_ptr<pmem::UnitArena> long_logs_;  // for groups longer than L
  std::atomic<uint64_t> live_bytes_{0};
  std::atomic<uint64_t> repaired_headers_{0};
  const uint32_t block_count_;
  std::unique_ptr<std::atomic<Block*>[]> blocks_;
  mutable std::mutex mutex_;  // ids and blocks
  std::vector<uint32_t> free_ids_;
  std::atomic<uint32_t> ids_{0};
  mutable pmem::PerWorker<ClosedList> closed_;
  ClosedList kept_;  // by recovery, in no order: older than all others
  mutable pmem::PerWorker<Partition> partitions_;
};

// Inline: it is part of the path of each write.
inline uint32_t AppendLog::Append(Pair pair, uint64_t sequence, LogOp op, unsigned left,
                                  uint32_t record_crc) {
  Partition& partition = partitions_.Current();
  const unsigned position = partition.Position();
  partition.position.store(position + 1, std::memory_order_relaxed);
  LogEntryWords& entry = partition.line[position % 2];
  if (position % 2 == 0) partition.line[1] = {};
  entry = {pair.key, pair.value, media::PackLogMeta(sequence, op, left), 0};
  entry.checksums = uint64_t{record_crc} << 32 |
                    LogReader::EntryCrc(partition.crc_base, position, entry, record_crc);
  // Two entries of a group that share a line are written once.
  if (position % 2 == 1 || left == 0) {
    const pmem::Offset line =
        partition.offset + sizeof(media::LogHeader) + (position / 2) * pmem::kLineBytes;
    medium_.StreamLine(pool_.At<char>(line), partition.line);
  }
  if (position + 1 == partition.entries) [[unlikely]]
    OpenBehind(partition);
  return partition.Open();
}

}  // namespace lodgekv
