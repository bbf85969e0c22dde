// The pool's header on the medium, byte by byte (docs/media_format.md draws it).
//
// In a libpmemobj pool the header begins at the first multiple of 256 in the root object; in an
// arena at offset 0. Integers are little-endian.
//
// Invariants:
// - The identity is written last when a pool is created, and never again. Without it there is no
//   pool.
// - The state word names the valid state slot: slot generation % 2. A change is written to the
//   other slot and fenced, then the state word is stored: one 8-byte store commits the change.
// - The unflushed word is set before anything is stored that nobody flushes (durability `process`),
//   and when a sync has failed; it is cleared when everything has been flushed. It need not be
//   durable: with the caches what it tells of is gone, too.
// - Each mark of the journal (journal_marks.h) is that of the session that the journal word names,
//   or 0.
// - A sealed state word says that the pool was closed cleanly: then both slots are equal and `seal`
//   covers the engine area and the chunk rows, which cover the chunks of nodes and logs, so that
//   every flipped bit of them is detected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/internal/journal_marks.h"
#include "index/pmem/medium.h"
#include "index/pmem/pool.h"

namespace lodgekv::pmem {

class PoolWriteback;

namespace media {

inline constexpr uint64_t kMagic = 0x31564b6567646f4cULL;  // the bytes "LodgeKV1"
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr size_t kEngineNameBytes = 32;
inline constexpr size_t kEngineAreaWords = 256;

struct Identity {
  uint64_t magic;
  uint32_t format_version;
  uint32_t header_bytes;  // sizeof(Header)
  uint8_t pool_id[16];
  char engine[kEngineNameBytes];  // padded with zeros, at least one
  uint32_t media_version;
  uint8_t key_format;
  uint8_t inline_pairs;  // 0 or 1
  uint16_t zero;
  uint64_t pool_bytes;    // size of the pool when it was created
  uint64_t chunk_bytes;   // of a chunk: a multiple of 256
  uint64_t object_bytes;  // of the heap used by an object with chunks_per_object chunks
  uint64_t chunk_rows;    // rows of the table after the header
  uint32_t chunks_per_object;
  uint32_t zero2;
  uint64_t reserved[17];
  uint32_t zero3;
  uint32_t crc;  // CRC32C of the bytes before it
};
static_assert(std::is_trivially_copyable_v<Identity> &&
              std::has_unique_object_representations_v<Identity>);
static_assert(sizeof(Identity) == 256);
static_assert(offsetof(Identity, pool_id) == 16 && offsetof(Identity, engine) == 32 &&
              offsetof(Identity, media_version) == 64 && offsetof(Identity, key_format) == 68 &&
              offsetof(Identity, inline_pairs) == 69 && offsetof(Identity, pool_bytes) == 72 &&
              offsetof(Identity, chunk_bytes) == 80 && offsetof(Identity, object_bytes) == 88 &&
              offsetof(Identity, chunk_rows) == 96 &&
              offsetof(Identity, chunks_per_object) == 104 && offsetof(Identity, reserved) == 112 &&
              offsetof(Identity, crc) == 252);

struct StateSlot {
  uint64_t generation;  // its low 32 bits are those of the state word
  uint64_t sequence;    // numbers below it may have been used
  uint64_t applied_index;
  uint64_t term;
  uint8_t cluster_id[16];
  uint64_t cluster_epoch;
  uint64_t flags;  // kFlagEngineCreated
  uint32_t seal;   // if sealed: CRC32C of the engine area and the chunk rows; otherwise 0
  uint32_t zero;
  uint64_t reserved[6];
  uint32_t zero2;
  uint32_t crc;  // CRC32C of the bytes before it, started with the pool's seed
};
static_assert(std::is_trivially_copyable_v<StateSlot> &&
              std::has_unique_object_representations_v<StateSlot>);
static_assert(sizeof(StateSlot) == 128);
static_assert(offsetof(StateSlot, sequence) == 8 && offsetof(StateSlot, applied_index) == 16 &&
              offsetof(StateSlot, term) == 24 && offsetof(StateSlot, cluster_id) == 32 &&
              offsetof(StateSlot, cluster_epoch) == 48 && offsetof(StateSlot, flags) == 56 &&
              offsetof(StateSlot, seal) == 64 && offsetof(StateSlot, reserved) == 72 &&
              offsetof(StateSlot, crc) == 124);

// The engine's create function has succeeded.
inline constexpr uint64_t kFlagEngineCreated = 1;

// A row of the chunk table. Its first 16 bytes are the PMEMoid of the object that begins with this
// chunk (zero in the rows of the object's other chunks), so that libpmemobj's atomic allocation
// stores it; in an arena the first word is 0 and the second the chunk's offset.
struct ChunkRow {
  Word pool_uuid;
  Word object;
  Word class_word;  // 0: free; see ChunkClass
  // While the pool is sealed, and the chunk holds nodes or logs: bit 32 and the CRC32C of the
  // chunk, started with the seed. Otherwise meaningless.
  Word content;
};
static_assert(sizeof(ChunkRow) == 32 && offsetof(ChunkRow, class_word) == 16);

// Of the unflushed word; otherwise it is 0.
inline constexpr uint64_t kUnflushed = 0x64656873756c666eULL;  // the bytes "nflushed"

struct Header {
  Identity identity;
  Word state_word;       // see StateWord
  Word pad[7];           // zero
  Word journal_word;     // see JournalWord; in a line of its own
  Word pad2[7];          // zero
  Word unflushed_word;   // in a line of its own, too
  Word pad3[7];          // zero
  Word checkpoint_mark;  // see EncodeMark; the marks have a line of their own
  Word group_mark;
  Word pad4[6];  // zero; the slots begin in a block of their own
  StateSlot slots[2];
  Word engine_area[kEngineAreaWords];
};
static_assert(offsetof(Header, state_word) == 256 && offsetof(Header, journal_word) == 320 &&
              offsetof(Header, unflushed_word) == 384 && offsetof(Header, checkpoint_mark) == 448 &&
              offsetof(Header, group_mark) == 456 && offsetof(Header, slots) == 512 &&
              offsetof(Header, engine_area) == 768 && sizeof(Header) == 2816);

}  // namespace media

uint32_t IdentityCrc(const media::Identity& identity);

// The state word: bits 0..31 generation, bit 32 sealed, bits 33..39 zero, bits 40..63 check bits.
struct StateWord {
  uint32_t generation = 0;
  bool sealed = false;

  uint64_t Encode(uint32_t crc_seed) const;
  // False if the check bits do not match.
  static bool Decode(uint64_t word, uint32_t crc_seed, StateWord* out);
};

// The journal word: 0, or bits 0..39 the low bits (never 0) of the number of the session whose
// journal the pool needs, bits 40..63 check bits.
struct JournalWord {
  static constexpr uint64_t kSessionMask = (uint64_t{1} << 40) - 1;

  static uint64_t Encode(uint64_t session, uint32_t crc_seed);
};

// The class word of a chunk row: bits 0..7 use, bits 8..31 check bits, bits 32..63 unit_bytes. The
// check bits also cover the row's index.
struct ChunkClass {
  uint8_t use = 0;  // a ChunkUse, or kLargeObject
  uint32_t unit_bytes = 0;

  // In an arena: this chunk and the following unit_bytes - 1 are one large object.
  static constexpr uint8_t kLargeObject = 4;

  uint64_t Encode(uint32_t crc_seed, uint32_t row) const;
  static bool Decode(uint64_t word, uint32_t crc_seed, uint32_t row, ChunkClass* out);
};

// The division of a pool into chunks; part of the identity on the medium. Chunk rows i *
// chunks_per_object and those after it, up to the next such row, are adjacent in one object.
struct PoolGeometry {
  uint64_t pool_bytes = 0;
  uint64_t chunk_bytes = 0;
  uint64_t object_bytes = 0;
  uint64_t chunk_rows = 0;
  uint32_t chunks_per_object = 1;

  // The part of the pool used by a chunk.
  uint64_t chunk_cost() const { return object_bytes / chunks_per_object; }
};

// Reads and writes a header. Not thread-safe.
class PoolHeader {
 public:
  PoolHeader(Medium& medium, media::Header* header) : medium_(medium), header_(header) {}

  static size_t BytesFor(uint64_t rows) {
    return sizeof(media::Header) + rows * sizeof(media::ChunkRow);
  }
  static uint32_t SeedOf(const std::array<uint8_t, 16>& pool_id);

  // Writes a new header and table over the previous content, durable except for the identity: there
  // is no pool before Finish.
  void Prepare(const PoolIdentity& identity, const PoolGeometry& geometry);
  void Finish();

  // Loads the identity, which never changes after creation. `available`: bytes from the header to
  // the end of the area that may hold header and table. Errors do not name the pool: the caller
  // adds it.
  absl::Status LoadIdentity(size_t available);
  // Checks everything else and loads the state; the journal has been replayed.
  absl::Status LoadState();

  // The session (its low 40 bits) whose journal the pool needs, 0: none. DataLoss if damaged.
  absl::StatusOr<uint64_t> NeededSession() const;
  // Durable on return, by a sync of the pool: not through the journal that it refers to. The marks
  // are those of a session without groups, or 0.
  void StoreNeededSession(uint64_t session);
  // DataLoss if damaged.
  absl::StatusOr<JournalMarks> Marks() const;
  // Where the journal stores them while it is in use.
  Word& checkpoint_mark() { return header_->checkpoint_mark; }
  Word& group_mark() { return header_->group_mark; }

  // Whether caches may hold contents of the pool that nobody has flushed, from before this process.
  bool unflushed() const { return header_->unflushed_word.Load() != 0; }
  // Not durable.
  void MarkUnflushed();
  // Everything has been flushed. Durable on return.
  void ClearUnflushed();
  // A failed sync sets it.
  void MarkUnflushedWith(PoolWriteback& files);

  const PoolIdentity& identity() const { return identity_; }
  const PoolGeometry& geometry() const { return geometry_; }
  uint32_t crc_seed() const { return crc_seed_; }
  // Makes header, engine area and chunk rows durable as they are, except for the marks.
  void Persist();
  bool sealed() const { return word_.sealed; }
  const media::StateSlot& state() const { return state_; }
  std::span<Word> engine_area() const { return header_->engine_area; }
  std::span<media::ChunkRow> rows() const {
    return {reinterpret_cast<media::ChunkRow*>(header_ + 1), geometry_.chunk_rows};
  }

  // Makes `next` the state; durable on return. Unseals.
  void Update(media::StateSlot next);
  // Makes `next` the state and seals; nothing may be stored in the pool afterwards.
  void Seal(media::StateSlot next);

 private:
  void StoreMarks(uint64_t group);
  absl::Status CheckSeal() const;
  uint32_t SealCrc() const;
  void WriteSlot(uint32_t index, const media::StateSlot& slot);
  void StoreStateWord(const StateWord& word);

  Medium& medium_;
  media::Header* const header_;
  PoolIdentity identity_;
  PoolGeometry geometry_;
  uint32_t crc_seed_ = 0;
  StateWord word_;
  media::StateSlot state_{};
};

}  // namespace lodgekv::pmem
