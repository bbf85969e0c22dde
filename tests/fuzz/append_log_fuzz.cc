// The append log as recovery finds it: any mixture of complete, torn and old entries. Exactly the
// complete groups at its front are read; a gap that no crash leaves is refused.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "index/node/append_log.h"
#include "index/pmem/crc32c.h"
#include "tests/fuzz/arena_pool.h"
#include "tests/fuzz/fuzz_tracer.h"

namespace lodgekv {
namespace {

using Log = AppendLog;

constexpr unsigned kEntries = 12;
constexpr uint64_t kVersion = 9;

// The content of one entry on the medium, and whether its checksum is right.
struct Entry {
  bool whole = false;
  uint64_t key = 0;
  uint64_t value = 0;
  uint64_t meta = 0;
  uint32_t record_crc = 0;
};

// A pool with one log, whose entries are overwritten.
struct World {
  World() {
    FUZZ_REQUIRE(log.ReserveInOneLog(1, pmem::ReservePolicy::kKeep), "a log");
    for (const FoundLog& found : log.FindLogs(1)) offset = found.offset;
    FUZZ_REQUIRE(offset != 0, "a log");
    WriteHeader();
  }

  // docs/media_format.md
  void WriteHeader() {
    const uint64_t covered[3] = {kVersion, kEntries, offset};
    auto* header = pool.At<media::LogHeader>(offset);
    const uint32_t crc = pmem::Crc32c(pool.crc_seed(), covered, sizeof covered);
    Store(header->version, kVersion);
    Store(header->entries, kEntries);
    Store(header->checksum, crc);
    Store(header->copy[0], kVersion);
    Store(header->copy[1], kEntries);
    Store(header->copy[2], crc);
  }
  void WriteEntry(unsigned position, const Entry& entry) {
    const uint64_t of_log[2] = {kVersion, offset};
    const uint32_t base = pmem::Crc32c(pool.crc_seed(), of_log, sizeof of_log);
    const uint64_t covered[4] = {entry.key, entry.value, entry.meta,
                                 uint64_t{entry.record_crc} << 32 | position};
    const uint32_t crc = pmem::Crc32c(base, covered, sizeof covered) ^ (entry.whole ? 0U : 1U);
    auto* at = pool.At<media::LogEntry>(offset + sizeof(media::LogHeader)) + position;
    Store(at->key, entry.key);
    Store(at->value, entry.value);
    Store(at->meta, entry.meta);
    Store(at->checksums, uint64_t{entry.record_crc} << 32 | crc);
  }
  void Store(pmem::Word& word, uint64_t value) { pool.medium().Store(word, value); }
  uint8_t* Bytes() { return pool.At<uint8_t>(offset); }

  // The planted bug: the front part of a truncated group is valid.
  fuzz::CanaryTracer tracer{"node.log_reader.part_of_group"};
  fuzz::ArenaPool memory{size_t{1} << 17, 8192, &tracer};
  pmem::Pool& pool = memory.pool();
  Log log{pool, kEntries, [] { return uint64_t{4096}; }};
  pmem::Offset offset = 0;
};

World& TheWorld() {
  static auto* world = new World;
  return *world;
}

using Entries = std::array<Entry, kEntries>;

unsigned Left(const Entry& entry) { return media::LogLeftOf(entry.meta); }

// The entry behind the group that begins at `begin`; `begin` itself: no whole group is there.
unsigned EndOfGroup(const Entries& entries, unsigned begin) {
  if (begin >= kEntries || !entries[begin].whole) return begin;
  const unsigned end = begin + Left(entries[begin]) + 1;
  if (end > kEntries) return begin;
  for (unsigned i = begin; i < end; ++i) {
    if (!entries[i].whole || Left(entries[i]) != end - 1 - i) return begin;
  }
  return end;
}

// As the protocol says.
struct Expected {
  unsigned tail = 0;
  unsigned last_group = 0;
  bool sound = true;
};

Expected Predict(const Entries& entries) {
  Expected expected;
  for (unsigned end = EndOfGroup(entries, 0); end != expected.tail;
       end = EndOfGroup(entries, expected.tail)) {
    expected.last_group = expected.tail;
    expected.tail = end;
  }
  unsigned torn_end = 0;
  for (unsigned i = expected.tail; i < kEntries; ++i) {
    if (!entries[i].whole) continue;
    const unsigned end = i + Left(entries[i]) + 1;
    if (torn_end != 0 && end != torn_end) expected.sound = false;
    torn_end = end;
  }
  return expected;
}

void CheckRead(const World& world, const Entries& entries) {
  const Expected expected = Predict(entries);
  const std::vector<FoundLog> logs = world.log.FindLogs(1);
  FUZZ_REQUIRE(logs.size() == 1 && logs[0].version == kVersion && logs[0].entries == kEntries,
               "the log is not found");
  std::vector<FoundEntry> read;
  std::string problem;
  const bool sound = world.log.ReadLog(logs[0], &read, &problem);
  FUZZ_REQUIRE(sound == expected.sound, problem);
  FUZZ_REQUIRE(sound || fuzz::IsOnePrintableLine(problem), problem);
  FUZZ_REQUIRE(read.size() == expected.tail, "entries of a group that is not whole");
  for (unsigned i = 0; i < read.size(); ++i) {
    const Entry& entry = entries[i];
    FUZZ_REQUIRE(read[i].pair.key == entry.key && read[i].pair.value == entry.value, "pair");
    FUZZ_REQUIRE(read[i].sequence == entry.meta >> 12, "sequence");
    FUZZ_REQUIRE(static_cast<uint64_t>(read[i].op) == (entry.meta >> 10 & 3), "op");
    FUZZ_REQUIRE(read[i].record_crc == entry.record_crc, "record_crc");
    FUZZ_REQUIRE(read[i].in_last_group == (i >= expected.last_group), "last group");
  }
}

// A flipped bit in the header: the log is found by its copy. In an entry: it is not complete.
void CheckFlip(World& world, Entries entries, uint16_t flip) {
  constexpr unsigned kBytes = sizeof(media::LogHeader) + kEntries * sizeof(media::LogEntry);
  const unsigned place = flip / 8 % kBytes;
  world.Bytes()[place] ^= static_cast<uint8_t>(1U << flip % 8);
  if (place < sizeof(media::LogHeader)) {
    CheckRead(world, entries);
  } else {
    // Torn already: the flip may also make it whole.
    Entry& entry = entries[(place - sizeof(media::LogHeader)) / sizeof(media::LogEntry)];
    if (std::exchange(entry.whole, false)) CheckRead(world, entries);
  }
  world.Bytes()[place] ^= static_cast<uint8_t>(1U << flip % 8);
}

void Check(World& world, fuzz::InputReader input) {
  const auto flip = static_cast<uint16_t>(input.Number(2));
  Entries entries;
  for (unsigned i = 0; i < kEntries; ++i) {
    const uint8_t kind = input.Byte();
    Entry& entry = entries[i];
    entry.whole = (kind & 1) != 0;
    entry.key = i + uint64_t{kind} * 3;
    entry.value = ~entry.key;
    entry.record_crc = kind * 77U;
    // Usually few, so that groups end.
    const unsigned left = (kind & 2) != 0 ? 1023U - (kind >> 4) : unsigned{kind} >> 4;
    entry.meta = media::PackLogMeta(i + 1, static_cast<LogOp>(kind >> 2 & 3), left);
    world.WriteEntry(i, entry);
  }
  CheckRead(world, entries);
  CheckFlip(world, entries, flip);
}

}  // namespace
}  // namespace lodgekv

// Two bytes: the bit that flips. Then a byte an entry: bit 0 whole; bit 1 a group longer than the
// log; bits 2 and 3 what it does; the others how many entries are left.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lodgekv::Check(lodgekv::TheWorld(), lodgekv::fuzz::InputReader(data, size));
  return 0;
}
