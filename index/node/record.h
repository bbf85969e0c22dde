// A record: a key and a value of any length on the medium, immutable once linked
// (docs/media_format.md).
//
// Staged before any lock is acquired, except small ones of groups; its version and checksum are
// stored last, under the lock. The checksum covers the record's own offset and the pool's id, so
// that stale bytes of an earlier use never match.
#pragma once

#include <cstdint>
#include <string_view>

#include "index/pmem/crc32c.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"

namespace lodgekv {

namespace media {

// Media version 1.
struct RecordHeader {
  // crc32c:32 | key_bytes:16 | flags:16, low bits first.
  pmem::Word crc_and_lengths;
  pmem::Word version;  // the pool's sequence number
  // value_bytes:32 | reserved:32 (zero)
  pmem::Word value_bytes;
  // Then: expiry, 8 bytes of milliseconds, when kRecordHasExpiry; the key; the value.
};
static_assert(sizeof(RecordHeader) == 24);

inline constexpr uint64_t kRecordHasExpiry = 1;  // in flags

}  // namespace media

// A record's content; views into the medium.
struct RecordView {
  std::string_view key;
  std::string_view value;
  uint64_t version = 0;
  uint64_t expiry_unix_ms = 0;
  uint32_t crc = 0;
};

// A record that is written but not linked.
struct StagedRecord {
  pmem::Offset offset = 0;  // 0: none
  uint32_t body_crc = 0;    // over everything but version and expiry
  uint32_t crc = 0;         // set by FinishRecord
  uint64_t expiry_unix_ms = 0;
  uint64_t lengths = 0;  // upper half of crc_and_lengths
  uint64_t bytes = 0;
  bool large = false;
};

namespace internal {

inline constexpr uint64_t kLowHalf = 0xffffffff;

inline uint64_t RecordBodyOffset(bool has_expiry) {
  return sizeof(media::RecordHeader) + (has_expiry ? 8 : 0);
}

}  // namespace internal

inline uint64_t RecordBytes(uint64_t key_bytes, uint64_t value_bytes, bool has_expiry) {
  return internal::RecordBodyOffset(has_expiry) + key_bytes + value_bytes;
}

// Allocates and writes all but version and checksum. offset stays 0 if there is no room. A large
// record's body is durable on return.
StagedRecord StageRecord(pmem::Pool& pool, pmem::RecordSlab& slab, std::string_view key,
                         std::string_view value, uint64_t expiry_unix_ms,
                         pmem::ReservePolicy policy);

// The same in space that the slab has allocated before, of at least RecordBytes.
StagedRecord StageRecordAt(pmem::Pool& pool, pmem::RecordSlab& slab, pmem::Offset space,
                           std::string_view key, std::string_view value, uint64_t expiry_unix_ms);

// Stores version and checksum and flushes; the caller fences before anything links the record.
void FinishRecord(pmem::Pool& pool, StagedRecord& record, uint64_t version);

// True if a complete record with a valid checksum is at `offset`, which may be any number.
bool VerifyRecord(const pmem::Pool& pool, const pmem::RecordSlab& slab, pmem::Offset offset,
                  RecordView* view);

// --- linked records, whose lengths are trusted ---

namespace internal {

// From the header's words as they were read.
inline RecordView ViewRecordBy(const pmem::Pool& pool, pmem::Offset offset, uint64_t first,
                               uint64_t value_bytes) {
  const auto* header = pool.At<media::RecordHeader>(offset);
  const bool has_expiry = (first >> 48 & media::kRecordHasExpiry) != 0;
  uint64_t key_bytes = first >> 32 & 0xffff;
  // Damaged lengths may reach past the pool: then nothing is read, and no checksum matches.
  if (RecordBytes(key_bytes, value_bytes, has_expiry) > pool.bytes() - offset) [[unlikely]] {
    key_bytes = value_bytes = 0;
  }
  const char* body = pool.At<char>(offset) + RecordBodyOffset(has_expiry);
  RecordView view;
  view.key = {body, key_bytes};
  view.value = {body + key_bytes, value_bytes};
  view.version = header->version.LoadRelaxed();
  if (has_expiry) __builtin_memcpy(&view.expiry_unix_ms, body - 8, 8);
  view.crc = static_cast<uint32_t>(first);
  return view;
}

// The part of the checksum that does not depend on version and expiry.
inline uint32_t RecordBodyCrc(uint32_t seed, pmem::Offset offset, uint64_t lengths,
                              uint64_t value_bytes, std::string_view key, std::string_view value) {
  uint32_t crc = pmem::Crc32cOfWords(seed, offset, lengths, value_bytes);
  crc = pmem::Crc32c(crc, key.data(), key.size());
  return pmem::Crc32c(crc, value.data(), value.size());
}

inline uint32_t RecordCrc(uint32_t body_crc, uint64_t version, uint64_t expiry_unix_ms) {
  return pmem::Crc32cOfWords(body_crc, version, expiry_unix_ms);
}

}  // namespace internal

inline RecordView ViewRecord(const pmem::Pool& pool, pmem::Offset offset) {
  const auto* header = pool.At<media::RecordHeader>(offset);
  return internal::ViewRecordBy(pool, offset, header->crc_and_lengths.LoadRelaxed(),
                                header->value_bytes.LoadRelaxed() & internal::kLowHalf);
}

// Its key alone.
inline std::string_view KeyOfRecord(const pmem::Pool& pool, pmem::Offset offset) {
  const uint64_t first = pool.At<media::RecordHeader>(offset)->crc_and_lengths.LoadRelaxed();
  const bool has_expiry = (first >> 48 & media::kRecordHasExpiry) != 0;
  const uint64_t key_bytes = first >> 32 & 0xffff;
  if (RecordBytes(key_bytes, 0, has_expiry) > pool.bytes() - offset) [[unlikely]]
    return {};
  return {pool.At<char>(offset) + internal::RecordBodyOffset(has_expiry), key_bytes};
}

// True if the checksum of its content is valid.
bool RecordIsSound(const pmem::Pool& pool, pmem::Offset offset, const RecordView& view);

namespace internal {

// The same, inline, for single reads (search_form.h, kInlines).
inline bool RecordIsSound(const pmem::Pool& pool, pmem::Offset offset, const RecordView& view) {
  const auto* header = pool.At<media::RecordHeader>(offset);
  const uint64_t lengths = header->crc_and_lengths.LoadRelaxed() & ~kLowHalf;
  // The whole word: the checksum covers its reserved half too.
  const uint64_t value_bytes = header->value_bytes.LoadRelaxed();
  const uint32_t body =
      RecordBodyCrc(pool.crc_seed(), offset, lengths, value_bytes, view.key, view.value);
  return RecordCrc(body, view.version, view.expiry_unix_ms) == view.crc;
}

}  // namespace internal

}  // namespace lodgekv
