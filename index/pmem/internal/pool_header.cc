#include "index/pmem/internal/pool_header.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/pmem/crash_point.h"
#include "index/pmem/crc32c.h"
#include "index/pmem/internal/pool_writeback.h"

namespace lodgekv::pmem {
namespace {

constexpr uint32_t kCrcStart = ~uint32_t{0};

uint32_t SlotCrc(const media::StateSlot& slot, uint32_t seed) {
  return Crc32c(seed, &slot, offsetof(media::StateSlot, crc));
}

uint64_t CheckBits(uint64_t covered, uint32_t seed) {
  return Crc32c(seed, &covered, sizeof covered) & 0xffffff;
}

bool AllZero(std::span<const Word> words) {
  return std::all_of(words.begin(), words.end(),
                     [](const Word& word) { return word.LoadRelaxed() == 0; });
}

absl::Status CheckGeometry(const PoolGeometry& geometry, size_t available) {
  const bool sound =
      geometry.chunk_bytes > 0 && geometry.chunk_bytes % kBlockBytes == 0 &&
      geometry.chunks_per_object > 0 && geometry.chunk_bytes <= geometry.chunk_cost() &&
      geometry.chunk_rows < UINT32_MAX && PoolHeader::BytesFor(geometry.chunk_rows) <= available;
  if (sound) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "its header is damaged or the pool is truncated: it records %u chunks of %u bytes, and %u "
      "bytes are there for header and chunk table",
      geometry.chunk_rows, geometry.chunk_bytes, available));
}

}  // namespace

uint32_t IdentityCrc(const media::Identity& identity) {
  return Crc32c(kCrcStart, &identity, offsetof(media::Identity, crc));
}

uint64_t StateWord::Encode(uint32_t crc_seed) const {
  const uint64_t covered = uint64_t{generation} | uint64_t{sealed} << 32;
  return covered | CheckBits(covered, crc_seed) << 40;
}

bool StateWord::Decode(uint64_t word, uint32_t crc_seed, StateWord* out) {
  out->generation = static_cast<uint32_t>(word);
  out->sealed = (word >> 32 & 1) != 0;
  return out->Encode(crc_seed) == word;
}

uint64_t JournalWord::Encode(uint64_t session, uint32_t crc_seed) {
  const uint64_t low = session & kSessionMask;
  return low == 0 ? 0 : low | CheckBits(low, crc_seed) << 40;
}

uint64_t ChunkClass::Encode(uint32_t crc_seed, uint32_t row) const {
  if (use == 0) return 0;
  const uint64_t check = CheckBits(uint64_t{unit_bytes} << 32 | row, crc_seed + use);
  return uint64_t{use} | check << 8 | uint64_t{unit_bytes} << 32;
}

bool ChunkClass::Decode(uint64_t word, uint32_t crc_seed, uint32_t row, ChunkClass* out) {
  out->use = static_cast<uint8_t>(word);
  out->unit_bytes = static_cast<uint32_t>(word >> 32);
  return out->use <= kLargeObject && out->Encode(crc_seed, row) == word;
}

uint32_t PoolHeader::SeedOf(const std::array<uint8_t, 16>& pool_id) {
  return Crc32c(kCrcStart, pool_id.data(), pool_id.size());
}

void PoolHeader::Prepare(const PoolIdentity& identity, const PoolGeometry& geometry) {
  identity_ = identity;
  geometry_ = geometry;
  crc_seed_ = SeedOf(identity.pool_id);
  word_ = {};
  // First, so that a crash in between leaves no identity beside another pool's state.
  medium_.StoreZeros(header_, BytesFor(geometry.chunk_rows));
  medium_.Persist(header_, BytesFor(geometry.chunk_rows));
  if (medium_.Canary("pmem.create.identity_first")) Finish();
  media::StateSlot first{};
  first.sequence = 1;
  Update(first);
}

void PoolHeader::Finish() {
  media::Identity on_media{};
  on_media.magic = media::kMagic;
  on_media.format_version = media::kFormatVersion;
  on_media.header_bytes = sizeof(media::Header);
  std::copy(identity_.pool_id.begin(), identity_.pool_id.end(), on_media.pool_id);
  identity_.engine.copy(on_media.engine, media::kEngineNameBytes - 1);
  on_media.media_version = identity_.media_version;
  on_media.key_format = static_cast<uint8_t>(identity_.key_format);
  on_media.inline_pairs = identity_.inline_pairs ? 1 : 0;
  on_media.pool_bytes = geometry_.pool_bytes;
  on_media.chunk_bytes = geometry_.chunk_bytes;
  on_media.object_bytes = geometry_.object_bytes;
  on_media.chunks_per_object = geometry_.chunks_per_object;
  on_media.chunk_rows = geometry_.chunk_rows;
  on_media.crc = IdentityCrc(on_media);
  medium_.StoreBulk(&header_->identity, &on_media, sizeof on_media);
  medium_.Persist(&header_->identity, sizeof on_media);
}

absl::Status PoolHeader::LoadIdentity(size_t available) {
  if (available < sizeof(media::Header)) {
    return absl::DataLossError(
        absl::StrCat("its header is damaged or the pool is truncated: ", available,
                     " bytes are there, the header has ", sizeof(media::Header)));
  }
  media::Identity on_media;
  std::memcpy(&on_media, &header_->identity, sizeof on_media);
  if (on_media.magic != media::kMagic) {
    return absl::DataLossError(absl::StrFormat(
        "its header does not begin with LodgeKV's mark (0x%016x found, 0x%016x expected): the "
        "creation of the pool was interrupted, or the header is damaged",
        on_media.magic, media::kMagic));
  }
  if (const uint32_t crc = IdentityCrc(on_media); crc != on_media.crc) {
    return absl::DataLossError(
        absl::StrFormat("its header is damaged: the checksum of the identity is 0x%08x, 0x%08x "
                        "is recorded",
                        crc, on_media.crc));
  }
  if (on_media.format_version != media::kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("its header has format version ", on_media.format_version,
                     ", this program knows version ", media::kFormatVersion,
                     on_media.format_version > media::kFormatVersion
                         ? ": the pool was made by a newer LodgeKV; use that one"
                         : ""));
  }
  std::copy(std::begin(on_media.pool_id), std::end(on_media.pool_id), identity_.pool_id.begin());
  identity_.engine.assign(on_media.engine, strnlen(on_media.engine, media::kEngineNameBytes));
  identity_.media_version = on_media.media_version;
  identity_.key_format = static_cast<KeyFormat>(on_media.key_format);
  identity_.inline_pairs = on_media.inline_pairs != 0;
  geometry_ = {on_media.pool_bytes, on_media.chunk_bytes, on_media.object_bytes,
               on_media.chunk_rows, on_media.chunks_per_object};
  crc_seed_ = SeedOf(identity_.pool_id);
  return CheckGeometry(geometry_, available);
}

absl::Status PoolHeader::LoadState() {
  const uint64_t word = header_->state_word.Load();
  if (!StateWord::Decode(word, crc_seed_, &word_)) {
    return absl::DataLossError(
        absl::StrFormat("its header is damaged: state word 0x%016x has wrong check bits", word));
  }
  if (!AllZero(header_->pad) || !AllZero(header_->pad2) || !AllZero(header_->pad3) ||
      !AllZero(header_->pad4)) {
    return absl::DataLossError(
        "its header is damaged: bytes 264 to 319, 328 to 383, 392 to 447 and 464 to 511 are not "
        "all zero");
  }
  const uint64_t unflushed = header_->unflushed_word.Load();
  if (unflushed != 0 && unflushed != media::kUnflushed) {
    return absl::DataLossError(
        absl::StrFormat("its header is damaged: unflushed word 0x%016x is neither 0 nor 0x%016x",
                        unflushed, media::kUnflushed));
  }
  if (absl::Status status = Marks().status(); !status.ok()) return status;
  const uint32_t index = word_.generation % 2;
  std::memcpy(&state_, &header_->slots[index], sizeof state_);
  if (SlotCrc(state_, crc_seed_) != state_.crc ||
      static_cast<uint32_t>(state_.generation) != word_.generation) {
    return absl::DataLossError(absl::StrFormat(
        "its header is damaged: state slot %u (generation %u) has a wrong checksum or is not of "
        "generation %u",
        index, state_.generation, word_.generation));
  }
  return word_.sealed ? CheckSeal() : absl::OkStatus();
}

absl::StatusOr<uint64_t> PoolHeader::NeededSession() const {
  const uint64_t word = header_->journal_word.Load();
  const uint64_t session = word & JournalWord::kSessionMask;
  if (JournalWord::Encode(session, crc_seed_) == word) return session;
  return absl::DataLossError(
      absl::StrFormat("its header is damaged: journal word 0x%016x has wrong check bits", word));
}

// Word and marks survive a crash each by itself. A mark of 0 is right beside any session, any mark
// beside none.
void PoolHeader::StoreNeededSession(uint64_t session) {
  const bool stay = medium_.Canary("pmem.journal.marks_stay");
  medium_.Store(header_->journal_word, JournalWord::Encode(session, crc_seed_));
  medium_.FlushLine(&header_->journal_word);
  if (session != 0 || !stay) StoreMarks(session == 0 ? 0 : 1);
  medium_.Fence();
}

void PoolHeader::StoreMarks(uint64_t group) {
  medium_.Store(header_->checkpoint_mark, EncodeMark(group));
  medium_.Store(header_->group_mark, EncodeMark(group));
  medium_.FlushLine(&header_->checkpoint_mark);
}

absl::StatusOr<JournalMarks> PoolHeader::Marks() const {
  const absl::StatusOr<uint64_t> checkpoint = DecodeMark(header_->checkpoint_mark.Load());
  if (!checkpoint.ok()) return checkpoint.status();
  const absl::StatusOr<uint64_t> groups = DecodeMark(header_->group_mark.Load());
  if (!groups.ok()) return groups.status();
  return JournalMarks{*checkpoint, *groups};
}

void PoolHeader::MarkUnflushed() {
  if (unflushed() || medium_.Canary("pmem.unflushed.not_marked")) return;
  medium_.Store(header_->unflushed_word, media::kUnflushed);
  LODGEKV_CRASH_POINT(medium_, "pmem.unflushed.1");
}

void PoolHeader::MarkUnflushedWith(PoolWriteback& files) {
  files.StoreAtFailure(reinterpret_cast<uint64_t*>(&header_->unflushed_word), media::kUnflushed);
}

void PoolHeader::ClearUnflushed() {
  if (medium_.failed()) return;
  medium_.Store(header_->unflushed_word, 0);
  medium_.FlushLine(&header_->unflushed_word);
  LODGEKV_CRASH_POINT(medium_, "pmem.unflushed.3");
  medium_.Fence();
}

absl::Status PoolHeader::CheckSeal() const {
  if (std::memcmp(&header_->slots[0], &header_->slots[1], sizeof(media::StateSlot)) != 0) {
    return absl::DataLossError(
        "its header is damaged: the pool was closed cleanly, but its two state slots (bytes 512 "
        "to "
        "767) differ");
  }
  if (const uint32_t crc = SealCrc(); crc != state_.seal) {
    return absl::DataLossError(absl::StrFormat(
        "its header is damaged: the pool was closed cleanly with checksum 0x%08x over engine area "
        "and chunk table, now it is 0x%08x",
        state_.seal, crc));
  }
  return absl::OkStatus();
}

uint32_t PoolHeader::SealCrc() const {
  const uint32_t area = Crc32c(crc_seed_, header_->engine_area, sizeof header_->engine_area);
  return Crc32c(area, rows().data(), rows().size_bytes());
}

void PoolHeader::Update(media::StateSlot next) {
  if (word_.sealed) {
    // Before anything changes: a seal covers both slots.
    word_.sealed = false;
    if (!medium_.Canary("pmem.state.stays_sealed")) StoreStateWord(word_);
  }
  next.generation = word_.generation + (medium_.Canary("pmem.state.in_place") ? 2 : 1);
  next.seal = 0;
  WriteSlot(static_cast<uint32_t>(next.generation % 2), next);
  word_.generation = static_cast<uint32_t>(next.generation);
  StoreStateWord(word_);
}

void PoolHeader::Persist() {
  constexpr size_t kMarks = offsetof(media::Header, checkpoint_mark);
  constexpr size_t kBehind = kMarks + kLineBytes;
  char* begin = reinterpret_cast<char*>(header_);
  medium_.Flush(begin, kMarks);
  medium_.Flush(begin + kBehind, sizeof *header_ - kBehind);
  medium_.Flush(rows().data(), rows().size_bytes());
  medium_.Fence();
}

void PoolHeader::Seal(media::StateSlot next) {
  medium_.Flush(header_->engine_area, sizeof header_->engine_area);  // with Update's fences
  Update(next);
  next = state_;
  next.seal = SealCrc();
  next.generation = word_.generation + 1;
  WriteSlot(static_cast<uint32_t>(next.generation % 2), next);
  word_.generation = static_cast<uint32_t>(next.generation);
  StoreStateWord(word_);
  // Now the other slot is not valid.
  WriteSlot(1 - word_.generation % 2, state_);
  word_.sealed = true;
  StoreStateWord(word_);
}

// After a failure nothing is stored: a failed fence has not made durable what it would build on.

void PoolHeader::WriteSlot(uint32_t index, const media::StateSlot& slot) {
  if (medium_.failed()) return;
  state_ = slot;
  state_.crc = SlotCrc(state_, crc_seed_);
  medium_.StoreBulk(&header_->slots[index], &state_, sizeof state_);
  medium_.Flush(&header_->slots[index], sizeof state_);
  LODGEKV_CRASH_POINT(medium_, "pmem.state.1");
  medium_.Fence();
}

void PoolHeader::StoreStateWord(const StateWord& word) {
  if (medium_.failed()) return;
  medium_.Store(header_->state_word, word.Encode(crc_seed_));
  medium_.FlushLine(&header_->state_word);
  LODGEKV_CRASH_POINT(medium_, "pmem.state.2");
  medium_.Fence();
}

}  // namespace lodgekv::pmem
