#include "index/node/record.h"

namespace lodgekv {

namespace {

using media::RecordHeader;
using pmem::Crc32c;
using pmem::Offset;
using pmem::Pool;

constexpr uint64_t kCrcMask = 0xffffffff;

uint64_t PackLengths(uint64_t key_bytes, bool has_expiry) {
  return key_bytes << 32 | (has_expiry ? media::kRecordHasExpiry << 48 : 0);
}

// The part of the checksum that does not depend on version and expiry.
uint32_t BodyCrc(uint32_t seed, Offset offset, uint64_t lengths, uint64_t value_bytes,
                 std::string_view key, std::string_view value) {
  const uint64_t head[3] = {offset, lengths, value_bytes};
  uint32_t crc = Crc32c(seed, head, sizeof(head));
  crc = Crc32c(crc, key.data(), key.size());
  return Crc32c(crc, value.data(), value.size());
}

uint32_t FullCrc(uint32_t body_crc, uint64_t version, uint64_t expiry_unix_ms) {
  const uint64_t tail[2] = {version, expiry_unix_ms};
  return Crc32c(body_crc, tail, sizeof(tail));
}

uint64_t BodyOffset(bool has_expiry) { return sizeof(RecordHeader) + (has_expiry ? 8 : 0); }

}  // namespace

uint64_t RecordBytes(uint64_t key_bytes, uint64_t value_bytes, bool has_expiry) {
  return BodyOffset(has_expiry) + key_bytes + value_bytes;
}

StagedRecord StageRecord(Pool& pool, pmem::RecordSlab& slab, std::string_view key,
                         std::string_view value, uint64_t expiry_unix_ms,
                         pmem::ReservePolicy policy) {
  const uint64_t bytes = RecordBytes(key.size(), value.size(), expiry_unix_ms != 0);
  const Offset space = slab.Allocate(bytes, policy);
  if (space == 0) return {};
  return StageRecordAt(pool, slab, space, key, value, expiry_unix_ms);
}

StagedRecord StageRecordAt(Pool& pool, pmem::RecordSlab& slab, Offset space, std::string_view key,
                           std::string_view value, uint64_t expiry_unix_ms) {
  const bool has_expiry = expiry_unix_ms != 0;
  StagedRecord record;
  record.bytes = RecordBytes(key.size(), value.size(), has_expiry);
  record.offset = space;
  record.expiry_unix_ms = expiry_unix_ms;
  record.lengths = PackLengths(key.size(), has_expiry);
  record.body_crc =
      BodyCrc(pool.crc_seed(), record.offset, record.lengths, value.size(), key, value);

  pmem::Medium& medium = pool.medium();
  char* at = pool.At<char>(record.offset);
  medium.Store(pool.At<RecordHeader>(record.offset)->value_bytes, value.size());
  if (has_expiry) medium.StoreBulk(at + sizeof(RecordHeader), &expiry_unix_ms, 8);
  char* body = at + BodyOffset(has_expiry);
  medium.StoreBulk(body, key.data(), key.size());
  if (!value.empty()) medium.StoreBulk(body + key.size(), value.data(), value.size());

  record.large = slab.IsLarge(record.bytes);
  if (record.large) {
    medium.Persist(at, record.bytes);
    slab.Commit(record.offset);
  }
  return record;
}

void FinishRecord(Pool& pool, StagedRecord& record, uint64_t version) {
  record.crc = FullCrc(record.body_crc, version, record.expiry_unix_ms);
  pmem::Medium& medium = pool.medium();
  auto* header = pool.At<RecordHeader>(record.offset);
  medium.Store(header->version, version);
  medium.Store(header->crc_and_lengths, record.lengths | record.crc);
  medium.Flush(header, record.large ? sizeof(RecordHeader) : record.bytes);
}

namespace {

// From the header's words as they were read.
RecordView ViewBy(const Pool& pool, Offset offset, uint64_t first, uint64_t value_bytes) {
  const auto* header = pool.At<RecordHeader>(offset);
  const bool has_expiry = (first >> 48 & media::kRecordHasExpiry) != 0;
  uint64_t key_bytes = first >> 32 & 0xffff;
  // Damaged lengths may reach past the pool: then nothing is read, and no checksum matches.
  if (RecordBytes(key_bytes, value_bytes, has_expiry) > pool.bytes() - offset) [[unlikely]] {
    key_bytes = value_bytes = 0;
  }
  const char* body = pool.At<char>(offset) + BodyOffset(has_expiry);
  RecordView view;
  view.key = {body, key_bytes};
  view.value = {body + key_bytes, value_bytes};
  view.version = header->version.LoadRelaxed();
  if (has_expiry) __builtin_memcpy(&view.expiry_unix_ms, body - 8, 8);
  view.crc = static_cast<uint32_t>(first);
  return view;
}

}  // namespace

RecordView ViewRecord(const Pool& pool, Offset offset) {
  const auto* header = pool.At<RecordHeader>(offset);
  return ViewBy(pool, offset, header->crc_and_lengths.LoadRelaxed(),
                header->value_bytes.LoadRelaxed() & kCrcMask);
}

bool RecordIsSound(const Pool& pool, Offset offset, const RecordView& view) {
  const auto* header = pool.At<RecordHeader>(offset);
  const uint64_t lengths = header->crc_and_lengths.LoadRelaxed() & ~kCrcMask;
  // The whole word: the checksum covers its reserved half too.
  const uint64_t value_bytes = header->value_bytes.LoadRelaxed();
  const uint32_t body =
      BodyCrc(pool.crc_seed(), offset, lengths, value_bytes, view.key, view.value);
  return FullCrc(body, view.version, view.expiry_unix_ms) == view.crc;
}

bool VerifyRecord(const Pool& pool, const pmem::RecordSlab& slab, Offset offset, RecordView* view) {
  const uint64_t space = slab.SpaceAt(offset);
  if (space < sizeof(RecordHeader)) return false;
  const auto* header = pool.At<RecordHeader>(offset);
  const uint64_t first = header->crc_and_lengths.LoadRelaxed();
  const bool has_expiry = (first >> 48 & media::kRecordHasExpiry) != 0;
  const uint64_t value_bytes = header->value_bytes.LoadRelaxed() & kCrcMask;
  if (RecordBytes(first >> 32 & 0xffff, value_bytes, has_expiry) > space) return false;
  // Not read again: freed space may change concurrently.
  *view = ViewBy(pool, offset, first, value_bytes);
  return RecordIsSound(pool, offset, *view);
}

}  // namespace lodgekv
