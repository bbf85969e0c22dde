// The journal on the medium, byte by byte (docs/media_format.md draws it). Integers are
// little-endian; everything begins at a multiple of kJournalBlock.
//
//   0      JournalHeader
//   4096   JournalCheckpoint, two of them, a block each
//   16384  the segments, all of one size: groups, one after the other
//
// Invariants:
// - Checkpoints and groups carry a checksum seeded with the pool's id and the session's number:
//   what an earlier session or another pool left is invalid.
// - Groups are numbered without a gap. One is written when the one before is durable, so at most
//   the last is torn.
// - A group is within one segment. Segments are used in rotation, and one is reused when a durable
//   checkpoint says that its groups are not needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lodgekv::pmem {

inline constexpr uint64_t kJournalBlock = 4096;
inline constexpr unsigned kJournalSegments = 4;
inline constexpr uint64_t kJournalSegmentsBegin = 16384;
inline constexpr uint64_t kJournalCheckpointBegin = 4096;

namespace media {

inline constexpr uint64_t kJournalMagic = 0x4a564b6567646f4cULL;  // the bytes "LodgeKVJ"
inline constexpr uint64_t kGroupMagic = 0x70756f7247564b4cULL;    // the bytes "LKVGroup"
inline constexpr uint32_t kJournalFormatVersion = 1;

struct JournalHeader {
  uint64_t magic;
  uint32_t format_version;
  uint32_t segments;
  uint8_t pool_id[16];
  uint64_t session;  // of the groups; 0 in a new journal
  uint64_t segment_bytes;
  // 1 from the begin of a session until its pool is closed cleanly: the pool may need the groups.
  uint32_t needed;
  uint32_t crc;  // CRC32C of the header with 0 here
};
static_assert(std::has_unique_object_representations_v<JournalHeader>);
static_assert(sizeof(JournalHeader) == 56 && offsetof(JournalHeader, session) == 32 &&
              offsetof(JournalHeader, needed) == 48);

struct JournalCheckpoint {
  uint64_t replay_from;  // groups with a lower number are in the pool
  uint32_t zero;
  uint32_t crc;  // CRC32C of the bytes before it, started with the session's seed
};
static_assert(std::has_unique_object_representations_v<JournalCheckpoint>);
static_assert(sizeof(JournalCheckpoint) == 16);

struct JournalGroup {
  uint64_t magic;
  uint64_t sequence;  // from 1 in each session
  uint32_t payload_bytes;
  uint32_t zero;
  uint64_t crc;  // GroupCrc of the header with 0 here and of the payload, started with the seed
};
static_assert(std::has_unique_object_representations_v<JournalGroup>);
static_assert(sizeof(JournalGroup) == 32 && offsetof(JournalGroup, crc) == 24);

}  // namespace media

// The payload is a list of entries. Each begins with a word: bits 0..47 a line of the pool (offset
// / 64), bits 48..55 how many complete lines follow, bits 56..63 which words of each line are valid
// (bit i: word i). Without lines it is a revocation: the next word is the number of lines, from
// that one on, to which earlier entries must not be replayed, since their space has been freed.
struct JournalEntry {
  static constexpr uint64_t kMostLines = 255;
  static constexpr uint8_t kAllWords = 0xff;

  uint64_t line = 0;
  uint8_t lines = 0;
  uint8_t words = kAllWords;

  uint64_t Encode() const {
    return line | static_cast<uint64_t>(lines) << 48 | static_cast<uint64_t>(words) << 56;
  }
  static JournalEntry Decode(uint64_t word) {
    return {word & ((uint64_t{1} << 48) - 1), static_cast<uint8_t>(word >> 48),
            static_cast<uint8_t>(word >> 56)};
  }
};

}  // namespace lodgekv::pmem
