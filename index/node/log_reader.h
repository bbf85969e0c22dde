// Reads logs back: for recovery, and for emptying old logs.
//
// INVARIANT  An entry is accepted only if its checksum is right for the pool, the log's version,
//            its offset and its position: what the space held before is never read as an entry.
//
// Thread-safe, also for a log whose space is freed and reused meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/node/codec.h"
#include "index/node/log_layout.h"
#include "index/pmem/crc32c.h"
#include "index/pmem/pool.h"

namespace lodgekv {

// A log as found on the medium.
struct FoundLog {
  pmem::Offset offset;
  uint64_t version;
  unsigned entries;

  // The space of a log of so many entries, header included: whole lines.
  static uint32_t UnitBytes(unsigned entries) {
    const size_t bytes = sizeof(media::LogHeader) + entries * sizeof(media::LogEntry);
    return static_cast<uint32_t>((bytes + pmem::kLineBytes - 1) & ~(pmem::kLineBytes - 1));
  }
};

// What a header says, in one of its two copies.
struct LogHeaderWords {
  uint64_t version;
  uint64_t entries;
  uint64_t checksum;

  static LogHeaderWords FirstOf(const media::LogHeader& header) {
    return {header.version.LoadRelaxed(), header.entries.LoadRelaxed(),
            header.checksum.LoadRelaxed()};
  }
  static LogHeaderWords CopyOf(const media::LogHeader& header) {
    return {header.copy[0].LoadRelaxed(), header.copy[1].LoadRelaxed(),
            header.copy[2].LoadRelaxed()};
  }
  bool operator==(const LogHeaderWords&) const = default;
};

// A log entry as read back.
struct FoundEntry {
  Pair pair;
  uint64_t sequence = 0;
  LogOp op = LogOp::kPut;
  uint32_t record_crc = 0;
  bool in_last_group = false;  // no later entry proves that its fence was reached
};

// An entry before it is written.
struct LogEntryWords {
  uint64_t key;
  uint64_t value;
  uint64_t meta;
  uint64_t checksums;
};
static_assert(sizeof(LogEntryWords) == sizeof(media::LogEntry));

class LogReader {
 public:
  explicit LogReader(pmem::Pool& pool) : pool_(pool) {}

  // What both copies say in the header of such a log.
  LogHeaderWords HeaderOf(const FoundLog& log) const;
  // What the header says by its words or by their copy. False: no log begins here, or none of
  // `unit_bytes`.
  bool ReadHeader(pmem::Offset offset, uint32_t unit_bytes, FoundLog* log) const;
  // Of a log with entries, whose header was durable before them: one of the copies does not say
  // this. In pools of earlier builds there is only one.
  bool HeaderIsDamaged(const FoundLog& log) const;
  // The initial part of the checksums of all its entries.
  uint32_t CrcBase(pmem::Offset offset, uint64_t version) const;
  // Inline: every Put appends an entry.
  static uint32_t EntryCrc(uint32_t crc_base, unsigned position, const LogEntryWords& entry,
                           uint32_t record_crc) {
    const uint64_t covered[4] = {entry.key, entry.value, entry.meta,
                                 uint64_t{record_crc} << 32 | position};
    return pmem::Crc32c(crc_base, covered, sizeof(covered));
  }

  // False: there is no such entry. `left`: entries that follow in its fence group.
  bool ReadOne(const FoundLog& log, unsigned position, FoundEntry* entry, unsigned* left) const;
  // All entries up to the tail. False: a hole that no crash leaves (`problem` says where).
  bool ReadAll(const FoundLog& log, std::vector<FoundEntry>* entries, std::string* problem) const;

 private:
  bool TailIsOneGroup(const FoundLog& log, unsigned tail) const;

  pmem::Pool& pool_;
};

}  // namespace lodgekv
