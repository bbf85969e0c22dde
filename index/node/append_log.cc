#include "index/node/append_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/node/recovery_tasks.h"
#include "index/pmem/crash_point.h"

namespace lodgekv {

namespace {

using pmem::ChunkUse;
using pmem::Offset;
using pmem::ReservePolicy;

// For logs of each size; a smaller pool has fewer.
constexpr uint64_t kMostOwnChunks = 2;
constexpr uint64_t kChunksForOneOwn = 128;

// A chunk of logs may be given to another use and come back as a chunk of logs, its old logs partly
// overwritten: recovery must not find them then. Their headers carry a checksum seeded by the pool.
constexpr auto kHeads = pmem::ZeroHeads::kWhenReleased;

// Above this, live logs are emptied, so that they rarely reach their limit.
uint64_t EmptiedFrom(uint64_t limit) { return limit - limit / 8; }

// The longest fence group whose log fits into a chunk, of which alignment may take a block.
unsigned LargestGroup(uint64_t chunk_bytes, unsigned entries) {
  const uint64_t usable = chunk_bytes - pmem::kBlockBytes - sizeof(media::LogHeader);
  const uint64_t fit = usable / sizeof(media::LogEntry);
  return std::max<unsigned>(
      entries, static_cast<unsigned>(std::min<uint64_t>(fit, media::kLargestLogGroup)));
}

// Writes a copy of the header that is not what the log was found by; the other is not touched.
// False: both are right.
bool RepairHeader(pmem::Pool& pool, const LogReader& reader, const FoundLog& log) {
  if (!reader.HeaderIsDamaged(log)) return false;
  auto* header = pool.At<media::LogHeader>(log.offset);
  const LogHeaderWords words = reader.HeaderOf(log);
  pmem::Medium& medium = pool.medium();
  const auto write = [&](pmem::Word& version, pmem::Word& entries, pmem::Word& checksum) {
    medium.Store(version, words.version);
    medium.Store(entries, words.entries);
    medium.Store(checksum, words.checksum);
  };
  if (LogHeaderWords::FirstOf(*header) == words) {
    write(header->copy[0], header->copy[1], header->copy[2]);
  } else {
    write(header->version, header->entries, header->checksum);
  }
  medium.Persist(header, sizeof(*header));
  return true;
}

}  // namespace

AppendLog::AppendLog(pmem::Pool& pool, unsigned entries, Limit limit, bool reuse)
    : pool_(pool),
      medium_(pool.medium()),
      reader_(pool),
      entries_(entries),
      largest_group_(LargestGroup(pool.chunk_bytes(), entries)),
      limit_(std::move(limit)),
      kept_logs_(reuse ? kFreeLogsOfPartition : 0),
      logs_(std::make_unique<pmem::UnitArena>(pool, ChunkUse::kLogs, UnitBytes(entries), kHeads)),
      block_count_(BlockCount(pool.capacity_bytes() / UnitBytes(entries))),
      blocks_(std::make_unique<std::atomic<Block*>[]>(block_count_)) {
  if (largest_group_ > entries_) {
    long_logs_ =
        std::make_unique<pmem::UnitArena>(pool, ChunkUse::kLogs, UnitBytes(largest_group_), kHeads);
  }
}

AppendLog::~AppendLog() {
  for (uint32_t i = 0; i < block_count_; ++i) delete blocks_[i].load(std::memory_order_relaxed);
}

// Enough blocks for as many logs as the pool can hold, but no more than there are numbers for.
uint32_t AppendLog::BlockCount(uint64_t logs) {
  return static_cast<uint32_t>(std::min<uint64_t>(kNoLog / kBlock, logs / kBlock + 1));
}

// --- append ---

bool AppendLog::ReserveInOneLog(unsigned count, pmem::ReservePolicy policy) {
  Partition& partition = partitions_.Current();
  if (partition.Room() >= count) return true;
  if (!partition.next.empty() && count <= entries_) {
    SwitchTo(partition, partition.next.front());
    partition.next.erase(partition.next.begin());
    return true;
  }
  if (partition.next_long != kNoLog) {
    SwitchTo(partition, std::exchange(partition.next_long, kNoLog));
    return true;
  }
  const uint32_t id = OpenLog(partition, count <= entries_ ? entries_ : largest_group_, policy);
  if (id == kNoLog) return false;
  FenceHeaders();
  SwitchTo(partition, id);
  return true;
}

void AppendLog::FenceHeaders() {
  LODGEKV_CRASH_POINT(medium_, "node.log_header.1");
  medium_.Fence();
}

bool AppendLog::ReserveAcrossLogs(unsigned count, pmem::ReservePolicy policy) {
  Partition& partition = partitions_.Current();
  const bool enough = partition.SpreadRoom(entries_) >= count;
  if (enough) return true;
  const bool all = OpenUpTo(partition, count, policy);
  // Fenced even if not all were opened: those that were remain prepared, and a later write may use
  // one.
  FenceHeaders();
  return all;
}

bool AppendLog::OpenUpTo(Partition& partition, size_t room, pmem::ReservePolicy policy) {
  while (partition.SpreadRoom(entries_) < room) {
    const uint32_t id = OpenLog(partition, entries_, policy);
    if (id == kNoLog) return false;
    partition.next.push_back(id);
  }
  return true;
}

void AppendLog::PrepareNext(unsigned count, bool in_one_log) {
  Partition& partition = partitions_.Current();
  if (!in_one_log) {
    (void)OpenUpTo(partition, 2 * size_t{count}, pmem::ReservePolicy::kKeep);
    return;
  }
  if (partition.Room() >= 2 * count || partition.next_long != kNoLog) return;
  if (count > entries_) {
    partition.next_long = OpenLog(partition, largest_group_, pmem::ReservePolicy::kKeep);
  } else if (partition.next.empty()) {
    (void)OpenUpTo(partition, partition.Room() + 1, pmem::ReservePolicy::kKeep);
  }
}

// Closes the open log and continues in `id`, whose header is durable.
void AppendLog::SwitchTo(Partition& partition, uint32_t id) {
  if (const uint32_t old = partition.Open(); old != kNoLog) {
    const uint32_t untaken = partition.Room();
    // Until it is finished, TryCount finds it unfinished and not open, and waits.
    LogAt(old).open.store(false, std::memory_order_relaxed);
    partition.open.store(kNoLog, std::memory_order_release);
    AddClosed(old);
    ReleaseMany(old, kUnfinished | untaken);
  }
  const Log& log = LogAt(id);
  partition.position.store(0, std::memory_order_relaxed);
  partition.open.store(id, std::memory_order_release);
  partition.entries = log.entries.load(std::memory_order_relaxed);
  partition.offset = log.offset.load(std::memory_order_relaxed);
  partition.crc_base =
      reader_.CrcBase(partition.offset, log.version.load(std::memory_order_relaxed));
}

// Returns a log with a new version, pinned; its header is written but not fenced.
[[gnu::noinline]] uint32_t AppendLog::OpenLog(Partition& partition, unsigned entries,
                                              pmem::ReservePolicy policy) {
  const uint32_t id = TakeFree(partition, entries, policy);
  if (id == kNoLog) return kNoLog;
  Log& log = LogAt(id);
  const FoundLog found{log.offset.load(std::memory_order_relaxed), pool_.TakeSequence(1), entries};
  log.version.store(found.version, std::memory_order_relaxed);
  log.entries.store(entries, std::memory_order_relaxed);
  log.open.store(true, std::memory_order_relaxed);
  ValidOf(id).store(kUnfinished | entries, std::memory_order_release);
  const uint64_t bytes = UnitBytes(entries);
  Owe(partition, entries, live_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  partition.opened.Add(1);
  const LogHeaderWords words = reader_.HeaderOf(found);
  alignas(pmem::kLineBytes) const uint64_t header[8] = {
      words.version, words.entries, words.checksum, words.version, words.entries, words.checksum};
  medium_.StreamLine(pool_.At<media::LogHeader>(found.offset), header);
  return id;
}

uint32_t AppendLog::TakeFree(Partition& partition, unsigned entries, pmem::ReservePolicy policy) {
  if (entries == entries_ && !partition.free_logs.empty()) {
    const uint32_t id = partition.free_logs.back();
    partition.free_logs.pop_back();
    partition.reused.Add(1);
    return id;
  }
  const Offset offset = ArenaFor(entries).Allocate(policy);
  if (offset == 0) return kNoLog;
  const uint32_t id = NewLogId();
  if (id == kNoLog) {
    ArenaFor(entries).Free(offset);
  } else {
    LogAt(id).offset.store(offset, std::memory_order_relaxed);
  }
  return id;
}

uint32_t AppendLog::NewLogId() {
  const std::lock_guard lock(mutex_);
  if (!free_ids_.empty()) {
    const uint32_t id = free_ids_.back();
    free_ids_.pop_back();
    return id;
  }
  return TakeIdsLocked(1);
}

uint32_t AppendLog::TakeIds(uint32_t count) {
  const std::lock_guard lock(mutex_);
  const uint32_t first = TakeIdsLocked(count);
  if (first == kNoLog || count == 0) return first;
  kept_.first = first;
  kept_.last = first + count - 1;
  kept_.oldest.store(0, std::memory_order_relaxed);
  return first;
}

uint32_t AppendLog::TakeIdsLocked(uint32_t count) {
  const uint32_t first = ids_.load(std::memory_order_relaxed);
  if (count > block_count_ * kBlock - first) return kNoLog;
  const uint32_t blocks = (first + kBlock - 1) / kBlock;
  for (uint32_t block = blocks; block * kBlock < first + count; ++block) {
    blocks_[block].store(new Block, std::memory_order_release);
  }
  ids_.store(first + count, std::memory_order_release);
  return first;
}

void AppendLog::OpenBehind(Partition& partition) {
  if (!partition.next.empty()) return;
  const uint32_t next = OpenLog(partition, entries_, pmem::ReservePolicy::kKeep);
  if (next != kNoLog) partition.next.push_back(next);
}

void AppendLog::Release(uint32_t id) { ReleaseMany(id, 1); }

void AppendLog::ReleaseMany(uint32_t id, uint32_t count) {
  if (ValidOf(id).fetch_sub(count, std::memory_order_acq_rel) == count) FreeLog(id);
}

// --- what is owed ---

// Each appended entry pays for examining one entry of an old log, so that as many logs are emptied
// as are opened; or for two, while live logs are above their limit or groups leave much of their
// logs unused.
void AppendLog::Owe(Partition& partition, unsigned entries, uint64_t live) const {
  const uint64_t limit = CurrentLimit();
  if (live <= EmptiedFrom(limit)) return;
  const uint32_t most = 4 * largest_group_;
  partition.owed = std::min(most, partition.owed + (live > limit ? 2 : 1) * entries);
}

// In a nearly full pool logs get no more space than the log chunks that there are.
uint64_t AppendLog::CurrentLimit() const {
  const uint64_t limit = limit_();
  if (!pool_.tight()) return limit;
  return std::min(limit, logs_->total_units() * UnitBytes(entries_));
}

unsigned AppendLog::TakeOwed(size_t appended) {
  Partition& partition = partitions_.Current();
  if (live_bytes() <= EmptiedFrom(CurrentLimit())) partition.owed = 0;
  const size_t share = appended * (partition.owed > entries_ ? 2 : 1);
  const auto taken = static_cast<uint32_t>(std::min<size_t>(share, partition.owed));
  partition.owed -= taken;
  return taken;
}

void AppendLog::Forgive() { partitions_.Current().owed = 0; }

// The number of valid entries of a log. None: the log was switched to or from meanwhile.
std::optional<uint32_t> AppendLog::TryCount(uint32_t id) const {
  const Log& log = LogAt(id);
  const uint64_t version = log.version.load(std::memory_order_acquire);
  const uint32_t count = ValidOf(id).load(std::memory_order_acquire);
  if ((count & kUnfinished) == 0) return count;
  const uint32_t untaken = Untaken(id);
  const bool same = ValidOf(id).load(std::memory_order_acquire) == count &&
                    log.version.load(std::memory_order_acquire) == version &&
                    log.open.load(std::memory_order_acquire);
  if (!same) return std::nullopt;
  return (count & ~kUnfinished) - untaken;
}

// The entries of an unfinished log that are not yet written: all, if it is only prepared.
uint32_t AppendLog::Untaken(uint32_t id) const {
  uint32_t untaken = LogAt(id).entries.load(std::memory_order_relaxed);
  partitions_.ForEach([&](const Partition& partition) {
    if (partition.open.load(std::memory_order_acquire) == id) untaken -= partition.Position();
  });
  return untaken;
}

[[gnu::noinline]] void AppendLog::FreeLog(uint32_t id) {
  Log& log = LogAt(id);
  const uint32_t entries = log.entries.load(std::memory_order_relaxed);
  live_bytes_.fetch_sub(UnitBytes(entries), std::memory_order_relaxed);
  RemoveClosed(id);
  Partition& partition = partitions_.Current();
  // While space is being found, its arena knows when this log may be overwritten.
  const bool reusable = entries == entries_ && !pool_.finding_space();
  if (reusable && partition.free_logs.size() < kept_logs_) {
    partition.free_logs.push_back(id);
    return;
  }
  ArenaFor(entries).Free(log.offset.load(std::memory_order_relaxed));
  const std::lock_guard lock(mutex_);
  free_ids_.push_back(id);
}

// --- recovery ---

void AppendLog::Adopt(const std::vector<pmem::Chunk>& chunks) {
  for (pmem::UnitArena* arena : {logs_.get(), long_logs_.get()}) {
    if (arena != nullptr) arena->Adopt(chunks);
  }
}

std::vector<FoundLog> AppendLog::FindLogsIn(const pmem::UnitArena& arena,
                                            const pmem::Chunk& chunk) const {
  std::vector<FoundLog> found;
  arena.VisitUnits(chunk, [&](Offset offset) {
    FoundLog log;
    if (reader_.ReadHeader(offset, arena.unit_bytes(), &log)) found.push_back(log);
  });
  return found;
}

std::vector<FoundLog> AppendLog::FindLogs(unsigned threads) const {
  std::vector<std::pair<const pmem::UnitArena*, pmem::Chunk>> chunks;
  for (const pmem::UnitArena* arena : {logs_.get(), long_logs_.get()}) {
    if (arena == nullptr) continue;
    for (const pmem::Chunk& chunk : arena->OwnChunks()) chunks.emplace_back(arena, chunk);
  }
  std::vector<std::vector<FoundLog>> found(chunks.size());
  (void)RunTasks(chunks.size(), threads, [&](size_t i) {
    found[i] = FindLogsIn(*chunks[i].first, chunks[i].second);
    return absl::OkStatus();
  });
  std::vector<FoundLog> all;
  for (const auto& some : found) all.insert(all.end(), some.begin(), some.end());
  return all;
}

// While a log is closed and live its header does not change. When its space is used again it has
// been freed in between, which the second look at the count sees, or at the version.
pmem::Offset AppendLog::DamagedHeader(uint32_t id) const {
  const auto is_closed = [&] {
    const uint32_t valid = ValidOf(id).load(std::memory_order_acquire);
    return valid != 0 && (valid & kUnfinished) == 0;
  };
  if (!is_closed()) return 0;
  const Log& log = LogAt(id);
  const FoundLog found{log.offset.load(std::memory_order_relaxed),
                       log.version.load(std::memory_order_relaxed),
                       log.entries.load(std::memory_order_relaxed)};
  const OptimisticSection section;
  const bool damaged = reader_.HeaderIsDamaged(found);
  const bool same = is_closed() && log.version.load(std::memory_order_relaxed) == found.version;
  return damaged && same ? found.offset : 0;
}

void AppendLog::Keep(uint32_t id, const FoundLog& found, uint32_t valid) {
  if (RepairHeader(pool_, reader_, found)) {
    repaired_headers_.fetch_add(1, std::memory_order_relaxed);
  }
  ArenaFor(found.entries).Mark(found.offset);
  Log& log = LogAt(id);
  log.offset.store(found.offset, std::memory_order_relaxed);
  log.version.store(found.version, std::memory_order_relaxed);
  log.entries.store(found.entries, std::memory_order_relaxed);
  log.list = &kept_;
  log.before = id == kept_.first ? kNoLog : id - 1;
  log.behind = id == kept_.last ? kNoLog : id + 1;
  ValidOf(id).store(valid, std::memory_order_relaxed);
  live_bytes_.fetch_add(UnitBytes(found.entries), std::memory_order_relaxed);
}

void AppendLog::TakeOwnChunks() {
  const uint64_t chunks = pool_.capacity_bytes() / pool_.chunk_bytes();
  const uint64_t own = std::min(kMostOwnChunks, chunks / kChunksForOneOwn);
  logs_->KeepChunks(own);
  if (long_logs_ != nullptr) long_logs_->KeepChunks(own);
}

std::vector<pmem::UnitArena*> AppendLog::arenas() const {
  if (long_logs_ == nullptr) return {logs_.get()};
  return {logs_.get(), long_logs_.get()};
}

AppendLog::Counters AppendLog::counters() const {
  Counters sum;
  partitions_.ForEach([&](const Partition& partition) {
    sum.logs_opened += partition.opened.Load();
    sum.logs_reused += partition.reused.Load();
  });
  return sum;
}

void AppendLog::VisitCounters(CounterVisitor visitor) const {
  const Counters sum = counters();
  visitor({"logs_opened_total", "Logs opened, of all threads", CounterKind::kCounter,
           static_cast<double>(sum.logs_opened)});
  visitor({"logs_reused_total", "Logs opened in space that their thread had freed",
           CounterKind::kCounter, static_cast<double>(sum.logs_reused)});
  visitor({"log_live_bytes", "Bytes of logs with valid entries", CounterKind::kGauge,
           static_cast<double>(live_bytes())});
  visitor({"log_limit_bytes",
           "Bytes that live logs may take; from seven eighths on old ones are emptied",
           CounterKind::kGauge, static_cast<double>(limit_bytes())});
}

uint64_t AppendLog::dram_bytes() const {
  const uint64_t blocks = (ids_.load(std::memory_order_relaxed) + kBlock - 1) / kBlock;
  return blocks * sizeof(Block);
}

}  // namespace lodgekv
