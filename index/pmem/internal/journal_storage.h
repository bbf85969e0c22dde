// The storage of a journal: a file (journal_file.h), or a model of a disk in tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace lodgekv::pmem {

class JournalStorage {
 public:
  virtual ~JournalStorage() = default;
  virtual uint64_t bytes() const = 0;
  // Offset and size must be multiples of kJournalBlock, and memory aligned to it.
  virtual absl::Status Read(uint64_t offset, std::span<std::byte> to) = 0;
  // Durable on return. After a crash during the write each sector (512 bytes) is the old or the new
  // one.
  virtual absl::Status Write(uint64_t offset, std::span<const std::byte> from) = 0;
};

}  // namespace lodgekv::pmem
