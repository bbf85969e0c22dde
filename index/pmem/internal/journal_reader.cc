#include "index/pmem/internal/journal_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/pmem/crc32c.h"
#include "index/pmem/internal/group_crc.h"

namespace lodgekv::pmem {
namespace {

constexpr uint32_t kCrcStart = ~uint32_t{0};

uint32_t HeaderCrc(media::JournalHeader header) {
  header.crc = 0;
  return Crc32c(kCrcStart, &header, sizeof header);
}

}  // namespace

absl::StatusOr<media::JournalHeader> ReadJournalHeader(JournalStorage& storage) {
  alignas(kJournalBlock) std::byte block[kJournalBlock];
  if (absl::Status status = storage.Read(0, block); !status.ok()) return status;
  media::JournalHeader header;
  std::memcpy(&header, block, sizeof header);
  if (std::all_of(block, block + kJournalBlock, [](std::byte b) { return b == std::byte{0}; })) {
    return absl::NotFoundError("it has no header: its creation was interrupted");
  }
  if (header.magic != media::kJournalMagic) {
    return absl::DataLossError(
        absl::StrFormat("it does not begin with the mark of a journal (0x%016x found, 0x%016x "
                        "expected): it is something else, or its header is damaged",
                        header.magic, media::kJournalMagic));
  }
  if (const uint32_t crc = HeaderCrc(header); crc != header.crc) {
    return absl::DataLossError(absl::StrFormat(
        "its header is damaged: the checksum is 0x%08x, 0x%08x is recorded", crc, header.crc));
  }
  if (header.format_version != media::kJournalFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("its header has format version ", header.format_version,
                     ", this program knows version ", media::kJournalFormatVersion));
  }
  const bool fits =
      header.segments == kJournalSegments && header.segment_bytes % kJournalBlock == 0 &&
      header.segment_bytes > 0 && header.segment_bytes <= storage.bytes() / kJournalSegments &&
      kJournalSegmentsBegin + header.segments * header.segment_bytes == storage.bytes();
  if (fits) return header;
  return absl::DataLossError(absl::StrCat("it has ", storage.bytes(), " bytes, its header records ",
                                          header.segments, " segments of ", header.segment_bytes,
                                          ": it was truncated or extended"));
}

absl::Status WriteJournalHeader(JournalStorage& storage, media::JournalHeader header) {
  alignas(kJournalBlock) std::byte block[kJournalBlock]{};
  header.magic = media::kJournalMagic;
  header.format_version = media::kJournalFormatVersion;
  header.segments = kJournalSegments;
  header.crc = HeaderCrc(header);
  std::memcpy(block, &header, sizeof header);
  return storage.Write(0, block);
}

uint32_t JournalSeed(uint32_t pool_crc_seed, uint64_t session) {
  return Crc32c(pool_crc_seed, &session, sizeof session);
}

JournalReader::JournalReader(JournalStorage& storage, uint64_t segment_bytes, uint32_t crc_seed,
                             Tracer* tracer)
    : storage_(storage),
      segment_bytes_(segment_bytes),
      crc_seed_(crc_seed),
      tracer_(tracer),
      memory_(MakeBlocks(segment_bytes)) {}

absl::Status JournalReader::Load(unsigned segment) {
  if (loaded_ == static_cast<int>(segment)) return absl::OkStatus();
  loaded_ = -1;
  const uint64_t offset = kJournalSegmentsBegin + segment * segment_bytes_;
  if (absl::Status s = storage_.Read(offset, {memory_.get(), segment_bytes_}); !s.ok()) return s;
  loaded_ = static_cast<int>(segment);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> JournalReader::ReplayFrom() {
  uint64_t from = 1;
  for (uint64_t slot = 0; slot < 2; ++slot) {
    alignas(kJournalBlock) std::byte block[kJournalBlock];
    absl::Status status = storage_.Read(kJournalCheckpointBegin + slot * kJournalBlock, block);
    if (!status.ok()) return status;
    media::JournalCheckpoint checkpoint;
    std::memcpy(&checkpoint, block, sizeof checkpoint);
    const uint32_t crc = Crc32c(crc_seed_, &checkpoint, offsetof(media::JournalCheckpoint, crc));
    // Of another session, or torn: then the other one is valid.
    if (crc == checkpoint.crc) from = std::max(from, checkpoint.replay_from);
  }
  return from;
}

const media::JournalGroup* JournalReader::GroupAt(uint64_t offset, uint32_t* payload_bytes) const {
  const auto* group = reinterpret_cast<const media::JournalGroup*>(&memory_[offset]);
  if (group->magic != media::kGroupMagic) return nullptr;
  *payload_bytes = group->payload_bytes;
  if (*payload_bytes > segment_bytes_ - offset - sizeof *group) return nullptr;
  media::JournalGroup header = *group;
  header.crc = 0;
  const uint64_t of_header = GroupCrc(crc_seed_, &header, sizeof header);
  const uint64_t crc = GroupCrc(of_header, group + 1, *payload_bytes);
  const bool unchecked = tracer_ != nullptr && tracer_->OnCanary("pmem.journal.no_checksum");
  return crc == group->crc || unchecked ? group : nullptr;
}

void JournalReader::FindInSegment(unsigned segment) {
  for (uint64_t offset = 0; offset < segment_bytes_;) {
    uint32_t payload_bytes = 0;
    const media::JournalGroup* group = GroupAt(offset, &payload_bytes);
    if (group == nullptr) {
      offset += kJournalBlock;
      continue;
    }
    places_.push_back({group->sequence, segment, offset, payload_bytes});
    offset += BlockBytes(sizeof *group + payload_bytes);
  }
}

absl::Status JournalReader::Find() {
  places_.clear();
  const absl::StatusOr<uint64_t> from = ReplayFrom();
  if (!from.ok()) return from.status();
  for (unsigned segment = 0; segment < kJournalSegments; ++segment) {
    if (absl::Status status = Load(segment); !status.ok()) return status;
    FindInSegment(segment);
  }
  return KeepNeeded(*from);
}

absl::Status JournalReader::KeepNeeded(uint64_t from) {
  begin_ = from;
  std::erase_if(places_, [&](const Place& place) { return place.sequence < from; });
  std::sort(places_.begin(), places_.end(),
            [](const Place& a, const Place& b) { return a.sequence < b.sequence; });
  uint64_t expected = from;
  for (const Place& place : places_) {
    if (place.sequence != expected) {
      return absl::DataLossError(absl::StrFormat(
          "it is damaged: group %u is missing, group %u (segment %u, offset %u) is there", expected,
          place.sequence, place.segment, place.offset));
    }
    ++expected;
  }
  if (tracer_ != nullptr && tracer_->OnCanary("pmem.journal.newest_first")) {
    std::reverse(places_.begin(), places_.end());
  }
  return absl::OkStatus();
}

absl::Status JournalReader::ForEach(const Visit& visit) {
  for (const Place& place : places_) {
    if (absl::Status status = Load(place.segment); !status.ok()) return status;
    const std::byte* payload = &memory_[place.offset + sizeof(media::JournalGroup)];
    absl::Status status = visit(place.sequence, {payload, place.payload_bytes});
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace lodgekv::pmem
