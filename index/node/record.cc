#include "index/node/record.h"

namespace lodgekv {

namespace {

using media::RecordHeader;
using pmem::Offset;
using pmem::Pool;

uint64_t PackLengths(uint64_t key_bytes, bool has_expiry) {
  return key_bytes << 32 | (has_expiry ? media::kRecordHasExpiry << 48 : 0);
}

}  // namespace

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
  record.body_crc = internal::RecordBodyCrc(pool.crc_seed(), record.offset, record.lengths,
                                            value.size(), key, value);

  pmem::Medium& medium = pool.medium();
  char* at = pool.At<char>(record.offset);
  medium.Store(pool.At<RecordHeader>(record.offset)->value_bytes, value.size());
  if (has_expiry) medium.StoreBulk(at + sizeof(RecordHeader), &expiry_unix_ms, 8);
  char* body = at + internal::RecordBodyOffset(has_expiry);
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
  record.crc = internal::RecordCrc(record.body_crc, version, record.expiry_unix_ms);
  pmem::Medium& medium = pool.medium();
  auto* header = pool.At<RecordHeader>(record.offset);
  medium.Store(header->version, version);
  medium.Store(header->crc_and_lengths, record.lengths | record.crc);
  medium.Flush(header, record.large ? sizeof(RecordHeader) : record.bytes);
}

bool RecordIsSound(const Pool& pool, Offset offset, const RecordView& view) {
  return internal::RecordIsSound(pool, offset, view);
}

bool VerifyRecord(const Pool& pool, const pmem::RecordSlab& slab, Offset offset, RecordView* view) {
  const uint64_t space = slab.SpaceAt(offset);
  if (space < sizeof(RecordHeader)) return false;
  const auto* header = pool.At<RecordHeader>(offset);
  const uint64_t first = header->crc_and_lengths.LoadRelaxed();
  const bool has_expiry = (first >> 48 & media::kRecordHasExpiry) != 0;
  const uint64_t value_bytes = header->value_bytes.LoadRelaxed() & internal::kLowHalf;
  if (RecordBytes(first >> 32 & 0xffff, value_bytes, has_expiry) > space) return false;
  // Not read again: freed space may change concurrently.
  *view = internal::ViewRecordBy(pool, offset, first, value_bytes);
  return RecordIsSound(pool, offset, *view);
}

}  // namespace lodgekv
