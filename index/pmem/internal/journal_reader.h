// Reads a journal after a crash: finds the groups that replay needs, and refuses a journal that
// lacks one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/internal/journal_blocks.h"
#include "index/pmem/internal/journal_layout.h"
#include "index/pmem/internal/journal_storage.h"
#include "index/pmem/internal/tracer.h"

namespace lodgekv::pmem {

// Reads the header. NotFound: there is none, as in a file whose creation was interrupted; DataLoss:
// it is damaged; FailedPrecondition: written by a newer version.
absl::StatusOr<media::JournalHeader> ReadJournalHeader(JournalStorage& storage);
absl::Status WriteJournalHeader(JournalStorage& storage, media::JournalHeader header);

// The initial value of every checksum of a session.
uint32_t JournalSeed(uint32_t pool_crc_seed, uint64_t session);

class JournalReader {
 public:
  // `crc_seed`: of the session (JournalSeed).
  JournalReader(JournalStorage& storage, uint64_t segment_bytes, uint32_t crc_seed,
                Tracer* tracer = nullptr);

  // Finds the needed groups. A torn last group is ignored. DataLoss if one is missing or damaged
  // that others follow.
  absl::Status Find();
  size_t groups() const { return places_.size(); }
  // Replay begins with group `begin` and ends before `end`: equal if no group is needed.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return begin_ + places_.size(); }
  // Calls visit(number of the group, payload) in order. Call after Find.
  using Visit = std::function<absl::Status(uint64_t sequence, std::span<const std::byte> payload)>;
  absl::Status ForEach(const Visit& visit);

 private:
  struct Place {
    uint64_t sequence = 0;
    unsigned segment = 0;
    uint64_t offset = 0;  // in the segment
    uint64_t payload_bytes = 0;
  };

  absl::Status Load(unsigned segment);
  absl::StatusOr<uint64_t> ReplayFrom();
  // The complete and valid group at `offset` of the loaded segment; nullptr if there is none.
  const media::JournalGroup* GroupAt(uint64_t offset, uint32_t* payload_bytes) const;
  void FindInSegment(unsigned segment);
  absl::Status KeepNeeded(uint64_t from);

  JournalStorage& storage_;
  const uint64_t segment_bytes_;
  const uint32_t crc_seed_;
  Tracer* const tracer_;
  const JournalBlocks memory_;  // a segment
  int loaded_ = -1;
  uint64_t begin_ = 1;
  std::vector<Place> places_;
};

}  // namespace lodgekv::pmem
