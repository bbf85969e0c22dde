// A pool: one libpmemobj pool (file, poolset or devdax), or for tests a plain piece of memory, with
// our header, an area for the engine's roots, a sequence counter and a table of chunks.
//
// The libpmemobj pool holds one root object (pool_header.h) and the chunks; nothing smaller goes
// through its heap, except values too large for the record slabs.
//
// Thread-safe except for Create, Open and Close.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/journal_use.h"
#include "index/pmem/medium.h"
#include "index/pmem/pool_contents.h"

namespace lodgekv::pmem {

// Immutable: written when the pool is created, checksummed.
struct PoolIdentity {
  std::string engine;
  uint32_t media_version = 0;
  KeyFormat key_format = KeyFormat::kBytes;
  bool inline_pairs = false;
  std::array<uint8_t, 16> pool_id{};  // random; seeds every CRC in the pool
};

enum class MediumClass : uint8_t { kPmemAdr, kPmemEadr, kPmemForced, kCxl, kFile, kVolatile };
std::string_view MediumClassName(MediumClass medium_class);  // "pmem-adr", ...

inline constexpr uint64_t kDefaultPoolFileBytes = uint64_t{1} << 30;
inline constexpr uint64_t kDefaultCheckpointBytesPerSecond = uint64_t{16} << 20;

struct PoolOptions {
  std::string path;
  // Create only. 0: kDefaultPoolFileBytes for a file. A device or poolset has its own size and
  // accepts no other.
  uint64_t size_bytes = 0;
  // Nothing is flushed. The next process without it flushes everything when it opens the pool.
  bool process_durability = false;
  bool allow_volatile_medium = false;
  std::function<void(const std::string& what)> on_medium_failure;
  // Damage in libpmemobj's own part ends the process in a defined way (metadata_guard.h).
  bool guard_metadata = false;
  // On an ordinary file: the path of its journal (journal.h); empty: beside the pool, PATH.journal.
  // Then its size, and the minimum rate at which pages are written back; 0: see JournalBytes, and
  // kDefaultCheckpointBytesPerSecond.
  std::string journal_path;
  uint64_t journal_bytes = 0;
  uint64_t checkpoint_bytes_per_second = 0;
  // The number of threads that verify the checksums of a pool that was closed cleanly, and make
  // them: at most this many. 0: one per core.
  unsigned threads = 0;
  // Open verifies no chunk: the user of the pool does (pool_contents.h).
  bool verify_at_use = false;
};

// What a chunk is used for; on the medium in the chunk's row (pool_header.h).
enum class ChunkUse : uint8_t { kFree = 0, kNodes = 1, kLogs = 2, kRecords = 3 };

struct Chunk {
  uint32_t index = 0;  // row in the table
  Offset begin = 0;    // 256-byte aligned
  uint64_t bytes = 0;
  ChunkUse use = ChunkUse::kFree;
  uint32_t unit_bytes = 0;  // size of the fixed-size units in it
};

// Whether an allocation may use the reserve (the smaller of 1 % and 64 MiB of the pool), which is
// kept so that deletes, flushes and splits always work.
enum class ReservePolicy : uint8_t { kKeep, kUse };

// What opening a pool in an ordinary file has replayed from its journal.
struct JournalReplay {
  uint64_t groups = 0;
  uint64_t lines = 0;         // stored
  uint64_t milliseconds = 0;  // with the sync of the pool
};

// Whether opening a pool has flushed all of it: it found that a process with `process_durability`
// had stored there, or on an ordinary file that a sync had failed.
struct FlushAtOpen {
  bool done = false;
  uint64_t milliseconds = 0;
};

// Where chunks and large objects come from: libpmemobj, or a test's arena.
class ChunkSource;

class PoolMapping;
class PoolWatch;
struct ArenaJournal;
struct PoolLoss;
struct PoolGeometry;

// Holds chunks that it may not need: an arena. Asked when the pool is full.
class ChunkHolder {
 public:
  virtual ~ChunkHolder() = default;
  // Returns empty chunks to the pool; true when there was one. Called with no lock of the pool or
  // of another holder held.
  virtual bool GiveBackEmptyChunks() = 0;
};

class Pool {
 public:
  // Creates where there is nothing (no file, an empty file, or a device whose header page is zero);
  // AlreadyExists otherwise. On an error nothing new is left behind.
  static absl::StatusOr<std::unique_ptr<Pool>> Create(const PoolOptions& options,
                                                      const PoolIdentity& identity);
  // Opens and checks the identity, then asks `accept` whether this is the wanted pool: one that it
  // refuses stays as it is, closed cleanly if it was. Only then is the journal replayed and the
  // rest checked; then the pool is in use, unless chunks are left to verify (verify_at_use).
  using Accept = std::function<absl::Status(const PoolIdentity&)>;
  static absl::StatusOr<std::unique_ptr<Pool>> Open(const PoolOptions& options,
                                                    const Accept& accept = {});
  // True when `path` holds anything that Create would refuse to overwrite.
  static absl::StatusOr<bool> Exists(const std::string& path);

  // A pool in plain memory (4096-byte aligned, at least 64 KiB), for tests: same header, same
  // table. Create accepts memory with any content; Open expects an image of such a pool.
  struct ArenaOptions {
    std::span<std::byte> memory;
    uint64_t chunk_bytes = 8192;
    bool strict_order = false;
    // If not given: as strict_order, that is as on persistent memory or on an ordinary file. CXL
    // memory has strict order and short fences.
    std::optional<bool> long_fences;
    Tracer* tracer = nullptr;
    // Not null: as a pool on an ordinary file, with a journal there. Strict order and long fences.
    const ArenaJournal* journal = nullptr;
    bool verify_at_use = false;  // see PoolOptions
    // See PoolOptions; but a tracer sees flushes and fences, and has to ignore them.
    bool process_durability = false;
  };
  static absl::StatusOr<std::unique_ptr<Pool>> CreateArena(const ArenaOptions& options,
                                                           const PoolIdentity& identity);
  static absl::StatusOr<std::unique_ptr<Pool>> OpenArena(const ArenaOptions& options);

  virtual ~Pool();

  Medium& medium() { return *medium_; }
  char* base() const { return base_; }
  template <class T>
  T* At(Offset offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  Offset OffsetOf(const void* address) const {
    return static_cast<Offset>(static_cast<const char*>(address) - base_);
  }

  // From base() on: everything within can be read.
  uint64_t bytes() const { return bytes_; }

  const PoolIdentity& identity() const { return identity_; }
  // CRC32C of the pool id: the start value of every checksum in the pool.
  uint32_t crc_seed() const { return crc_seed_; }
  MediumClass medium_class() const { return medium_class_; }
  bool was_clean() const { return was_clean_; }  // as found by Open

  // Verifies its contents when they are used (pool_contents.h).
  PoolContents& contents() { return contents_; }
  // The pool is in use from here on: its seal is removed.
  void BeginUse();
  // What Open replayed; all 0 where there was nothing to replay.
  const JournalReplay& journal_replay() const;
  const FlushAtOpen& flush_at_open() const { return flush_at_open_; }
  // For a pool on an ordinary file, from Create or Open to Close; otherwise empty.
  std::string journal_path() const;
  std::optional<JournalUse> journal_use() const;
  // Until it is destroyed, checks the files of this pool (pool_watch.h); not for an arena.
  absl::StatusOr<std::unique_ptr<PoolWatch>> Watch(
      std::function<void(const PoolLoss&)> on_loss) const;
  // What a durable store survives here, in one sentence.
  const std::string& durability_detail() const { return durability_detail_; }

  // False from Create until MarkEngineCreated: a crash in between leaves a pool without an engine.
  bool engine_created() const;
  void MarkEngineCreated();  // durable on return
  // Frees whatever an unfinished creation of the engine left: chunks and large objects; and zeroes
  // the engine area. Only while !engine_created().
  void ResetForEngine();

  // Takes n (>= 1) consecutive sequence numbers and returns the first. They never repeat in the
  // lifetime of the pool: only a reservation ahead is persisted. Numbers start at 1 and stay below
  // 2^52.
  uint64_t TakeSequence(uint64_t n) {
    const uint64_t first = sequence_.fetch_add(n, std::memory_order_acq_rel);
    if (first + n > sequence_refill_.load(std::memory_order_relaxed)) [[unlikely]] {
      ReserveSequence(first + n);
    }
    return first;
  }
  // Above every number in use, and at most the next one that will be taken: a number below it is
  // never taken again, not even after a crash. A thread that finds a number taken sees everything
  // that the taking thread did before it took the number.
  uint64_t PeekSequence() const {
    return std::min(sequence_.load(std::memory_order_acquire),
                    sequence_refill_.load(std::memory_order_relaxed));
  }

  // The engine's own root words (256 of them): zero in a new pool, stored through medium() only.
  std::span<Word> engine_area() const { return engine_area_; }

  // The largest applied index made durable here (an engine that logs it elsewhere may be ahead).
  uint64_t applied_index() const;
  void PersistAppliedIndex(uint64_t index);

  // --- chunks ---
  // A free chunk, or a new one from the source, with its use persisted before it is returned.
  // ResourceExhausted when there is none. With `zero_heads` the first line of each of its units is
  // zeroed, durably, before its use is persisted.
  absl::StatusOr<Chunk> AcquireChunk(ChunkUse use, uint32_t unit_bytes, ReservePolicy policy,
                                     bool zero_heads = false);
  // Frees a chunk in which nothing is used. It may be acquired again at once.
  void ReleaseChunk(uint32_t index);
  // An arena is a holder from its construction to its destruction.
  void AddHolder(ChunkHolder* holder);
  void RemoveHolder(ChunkHolder* holder);
  // Asks all holders for empty chunks; true when there was one. The caller holds no lock.
  bool CollectEmptyChunks();
  // How often chunks and large objects have become free since NoteFull was first called. An arena
  // that has an empty chunk counts it too: CollectEmptyChunks may take the chunk.
  uint64_t came_free() const { return came_free_.load(std::memory_order_relaxed); }
  void NoteCameFree() {
    if (was_full()) came_free_.fetch_add(1, std::memory_order_relaxed);
  }
  // Called before an allocation that may fail is tried for the last time.
  void NoteFull() {
    if (!was_full()) was_full_.store(true, std::memory_order_seq_cst);
    if (!tight()) tight_.store(true, std::memory_order_relaxed);
  }
  // At most a sixteenth of the chunks is free, besides the reserve; or an allocation has failed
  // since chunks were last acquired or freed.
  bool tight() const { return tight_.load(std::memory_order_relaxed); }
  bool was_full() const { return was_full_.load(std::memory_order_relaxed); }
  // Space of arenas and large objects is still being found (unit_arena.h). A failed allocation
  // means a full pool only if this was false before it began: otherwise its caller releases what
  // the search may wait for, waits for the end of the search, and retries.
  bool finding_space() const { return unfinished_.load(std::memory_order_acquire) != 0; }
  // Called by arenas and slabs: this many more chunks, or large objects, are unfinished.
  void NoteUnfinished(int64_t more) { unfinished_.fetch_add(more, std::memory_order_acq_rel); }
  // Every chunk in use, by row. For recovery and Check.
  std::vector<Chunk> Chunks() const;
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  // The chunk that contains `offset`, or index == UINT32_MAX when none does. Takes no lock.
  Chunk FindChunk(Offset offset) const;

  // --- objects too large for a chunk's units ---
  // 256-byte aligned; 0 when there is no room. Only reserved: after a crash it is free unless
  // CommitLarge was called (which is durable on return).
  Offset ReserveLarge(uint64_t bytes, ReservePolicy policy);
  void CommitLarge(Offset offset);
  void FreeLarge(Offset offset);
  uint64_t LargeBytes(Offset offset) const;  // usable bytes; 0 when `offset` is no large object
  std::vector<Offset> LargeObjects() const;

  // Bytes of the pool that chunks and large objects can use; those used now; those reserved for
  // ReservePolicy::kUse.
  uint64_t capacity_bytes() const;
  uint64_t allocated_bytes() const;
  uint64_t reserve_bytes() const;

  // `clean`: everything was closed cleanly; recorded durably before the pool is closed.
  absl::Status Close(bool clean);
  // Closes and undoes Create: removes the file, or what makes the device a pool.
  absl::Status CloseAndRemove();

 protected:
  struct State;

  Pool() = default;
  void ReserveSequence(uint64_t at_least);
  Offset TryReserveLarge(uint64_t bytes, ReservePolicy policy);
  void NoteTight();  // under the lock of the chunks
  // Takes over the header and loads the chunk table; base_, medium_ and the state's source are set.
  absl::Status Adopt();
  // The last step of Open: the sequence numbers continue, and the pool is in use unless it is
  // verified later.
  void StartNumbers();
  absl::Status Detach(bool remove);
  // pool_file.cc
  absl::Status Attach(const PoolOptions& options, std::unique_ptr<PoolMapping> mapping);
  absl::Status Format(const PoolOptions& options, const PoolIdentity& identity,
                      const PoolGeometry& geometry);
  bool NeedsJournal() const;
  absl::Status AttachJournal(const PoolOptions& options);
  absl::Status LoadFile(const PoolOptions& options, uint64_t header_bytes, uint64_t bytes,
                        const Accept& accept);
  // pool_arena.cc
  void AttachJournal(const ArenaOptions& options);
  absl::Status BeginArena(const ArenaOptions& options);

  char* base_ = nullptr;
  uint64_t bytes_ = 0;
  std::unique_ptr<Medium> medium_;
  PoolIdentity identity_;
  uint32_t crc_seed_ = 0;
  MediumClass medium_class_ = MediumClass::kVolatile;
  bool was_clean_ = false;
  PoolContents contents_{*this};
  unsigned threads_ = 1;
  bool stores_unflushed_ = false;
  FlushAtOpen flush_at_open_;
  std::string durability_detail_;
  std::span<Word> engine_area_;
  uint64_t chunk_bytes_ = 0;
  std::atomic<uint64_t> sequence_{1};
  std::atomic<uint64_t> sequence_refill_{0};
  // Read by every write, and not on the cache line of the numbers, which every write changes.
  alignas(kLineBytes) std::atomic<uint64_t> came_free_{0};
  std::atomic<bool> was_full_{false};  // a pool that never was counts nothing
  std::atomic<bool> tight_{false};
  std::atomic<int64_t> unfinished_{0};
  std::atomic<bool> in_use_{false};
  std::unique_ptr<State> state_;  // pool_state.h
};

}  // namespace lodgekv::pmem
