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

uint64_t RecordBytes(uint64_t key_bytes, uint64_t value_bytes, bool has_expiry);

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

// The record at `offset`, whose lengths are trusted: only for linked records.
RecordView ViewRecord(const pmem::Pool& pool, pmem::Offset offset);

// True if a complete record with a valid checksum is at `offset`, which may be any number.
bool VerifyRecord(const pmem::Pool& pool, const pmem::RecordSlab& slab, pmem::Offset offset,
                  RecordView* view);

// True if the checksum of a linked record's content is valid.
bool RecordIsSound(const pmem::Pool& pool, pmem::Offset offset, const RecordView& view);

}  // namespace lodgekv
