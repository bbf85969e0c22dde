// The append log on the medium (append_log.h). docs/media_format.md draws these structs byte by
// byte; change them together, and raise the media version of every engine that has a log.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/pmem/medium.h"

namespace lodgekv {

// What an entry says, in two bits.
enum class LogOp : uint64_t { kPut = 0, kDelete = 1, kAppliedIndex = 2 };

namespace media {

// A log: one header line, then entries. When no valid entry is left the space is reused under a
// higher version.
struct LogHeader {
  pmem::Word version;   // never repeats in the pool; 0: never used
  pmem::Word entries;   // L, the number of entries that fit
  pmem::Word checksum;  // CRC32C over pool id, version, entries and the log's offset
  // The same three again: either set is enough, so that no flipped bit hides the log. Zero in pools
  // of earlier builds.
  pmem::Word copy[3];
  pmem::Word reserved[2];
};
static_assert(sizeof(LogHeader) == pmem::kLineBytes);

// One operation. Never crosses a line.
struct LogEntry {
  pmem::Word key;
  pmem::Word value;
  // sequence:52 | op:2 | entries left in this fence group:10, high bits first.
  pmem::Word meta;
  // crc32c:32 over pool id, version, log offset, position and the other words; then the checksum of
  // the record that the value names, 0 if none.
  pmem::Word checksums;
};
static_assert(sizeof(LogEntry) == 32);

inline constexpr unsigned kLargestLogGroup = 1024;  // entries left: 0..1023

inline uint64_t PackLogMeta(uint64_t sequence, LogOp op, unsigned left) {
  return sequence << 12 | static_cast<uint64_t>(op) << 10 | left;
}
inline uint64_t LogSequenceOf(uint64_t meta) { return meta >> 12; }
inline LogOp LogOpOf(uint64_t meta) { return static_cast<LogOp>(meta >> 10 & 3); }
inline unsigned LogLeftOf(uint64_t meta) { return static_cast<unsigned>(meta & 1023); }

}  // namespace media

}  // namespace lodgekv
