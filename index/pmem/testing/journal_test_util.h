// For tests: a journal in memory, and groups in it.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "index/pmem/internal/journal_group.h"
#include "index/pmem/internal/journal_reader.h"
#include "index/pmem/internal/journal_storage.h"

namespace lodgekv::pmem {

inline constexpr uint64_t kTestSegment = 16384;

class MemoryStorage : public JournalStorage {
 public:
  explicit MemoryStorage(uint64_t size = kJournalSegmentsBegin + kJournalSegments * kTestSegment)
      : content(size) {}
  uint64_t bytes() const override { return content.size(); }
  absl::Status Read(uint64_t offset, std::span<std::byte> to) override {
    if (offset + to.size() > content.size()) return absl::DataLossError("it is truncated");
    std::memcpy(to.data(), &content[offset], to.size());
    return absl::OkStatus();
  }
  absl::Status Write(uint64_t offset, std::span<const std::byte> from) override {
    std::memcpy(&content[offset], from.data(), from.size());
    return absl::OkStatus();
  }

  std::vector<std::byte> content;
};

// Writes the lines [first, first + count) of `pool` as group `sequence` at `offset`; returns its
// size.
inline uint64_t PutGroup(MemoryStorage& storage, uint64_t offset, uint64_t sequence, uint32_t seed,
                         std::span<const std::byte> pool, uint64_t first, uint64_t count) {
  JournalGroupBuffer group(kTestSegment, pool.size() / kLineBytes, {});
  std::vector<uint64_t> lines;
  for (uint64_t i = 0; i < count; ++i) lines.push_back(first + i);
  (void)group.Capture(reinterpret_cast<const char*>(pool.data()), lines, {});
  const std::span<const std::byte> bytes = group.Seal(sequence, seed);
  (void)storage.Write(offset, bytes);
  return bytes.size();
}

}  // namespace lodgekv::pmem
