// The journal of a pool on an ordinary file as a start after a crash finds it: groups of this and
// of other sessions; torn, repeated and missing ones; payloads of any content. Either exactly the
// expected groups are replayed, in order and within the pool, or the journal is refused.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "index/pmem/crc32c.h"
#include "index/pmem/internal/group_crc.h"
#include "index/pmem/internal/journal_replay.h"
#include "index/pmem/testing/journal_test_util.h"
#include "tests/fuzz/fuzz_tracer.h"

namespace lodgekv::pmem {
namespace {

constexpr uint32_t kSeed = 99;
constexpr uint64_t kSegment = 2 * kJournalBlock;
constexpr uint64_t kPoolBytes = 1024;
constexpr uint64_t kGuardBytes = 256;
constexpr size_t kMostPayload = kJournalBlock - sizeof(media::JournalGroup);

struct World {
  // The planted bug: a group is valid whatever its checksum.
  fuzz::CanaryTracer tracer{"pmem.journal.no_checksum"};
  MemoryStorage storage{kJournalSegmentsBegin + kJournalSegments * kSegment};
  Medium medium{[this] {
    Medium::Options options;
    options.tracer = &tracer;
    return options;
  }()};
  // The pool's lines, and guard bytes on both sides.
  alignas(kLineBytes) std::array<char, kPoolBytes + 2 * kGuardBytes> pool{};
};

World& TheWorld() {
  static auto* world = new World;
  return *world;
}

struct Group {
  uint64_t sequence = 0;
  std::string payload;
};

// The block at `place` begins a group; `damage`: one bit of it is wrong.
void PutBlock(World& world, unsigned place, const Group& group, uint32_t seed, bool damaged) {
  std::byte* at = &world.storage.content[kJournalSegmentsBegin + place * kJournalBlock];
  media::JournalGroup header{};
  header.magic = media::kGroupMagic;
  header.sequence = group.sequence;
  header.payload_bytes = static_cast<uint32_t>(group.payload.size());
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + sizeof header, group.payload.data(), group.payload.size());
  header.crc = GroupCrc(seed, at, sizeof header + group.payload.size()) ^ (damaged ? 1 : 0);
  std::memcpy(at, &header, sizeof header);
}

void PutCheckpoint(World& world, unsigned slot, uint64_t replay_from) {
  media::JournalCheckpoint checkpoint{replay_from, 0, 0};
  checkpoint.crc = Crc32c(kSeed, &checkpoint, offsetof(media::JournalCheckpoint, crc));
  std::memcpy(&world.storage.content[kJournalCheckpointBegin + slot * kJournalBlock], &checkpoint,
              sizeof checkpoint);
}

// A payload that Capture or AddRevocation could have made, or any bytes.
std::string MakePayload(fuzz::InputReader& input, uint8_t kind) {
  if ((kind & 0x80) != 0) return std::string(input.Text());
  const uint64_t line = input.Byte() % (2 * kPoolBytes / kLineBytes);
  const auto lines = static_cast<uint8_t>(input.Byte() % 4);
  const uint64_t first = JournalEntry{line, lines, input.Byte()}.Encode();
  std::string payload(sizeof first, '\0');
  std::memcpy(payload.data(), &first, sizeof first);
  if (lines == 0)
    return payload + std::string(1, static_cast<char>(input.Byte())) + std::string(7, '\0');
  return payload + std::string(lines * kLineBytes, static_cast<char>(kind));
}

// The valid groups by their place: what the input has put there.
std::vector<Group> Fill(World& world, fuzz::InputReader& input) {
  constexpr unsigned kBlocks = kJournalSegments * kSegment / kJournalBlock;
  std::fill(world.storage.content.begin(), world.storage.content.end(), std::byte{0});
  const uint8_t checkpoints = input.Byte();
  for (unsigned slot = 0; slot < 2; ++slot) {
    const uint64_t from = checkpoints >> (4 * slot) & 0xf;
    if (from != 0) PutCheckpoint(world, slot, from);
  }
  std::vector<Group> sound;
  for (unsigned place = 0; place < kBlocks && !input.empty(); ++place) {
    const uint8_t kind = input.Byte();
    if ((kind & 3) == 0) continue;  // nothing here
    Group group{input.Byte() % uint64_t{16}, MakePayload(input, kind)};
    group.payload.resize(std::min(group.payload.size(), kMostPayload));
    const bool damaged = (kind & 3) == 2;
    const bool foreign = (kind & 3) == 3;
    PutBlock(world, place, group, foreign ? kSeed + 1 : kSeed, damaged);
    if (!damaged && !foreign) sound.push_back(std::move(group));
  }
  return sound;
}

// The expected result of Find: the groups from the latest checkpoint on, without a gap and each
// once.
bool IsSound(std::vector<Group>& groups, uint64_t from) {
  std::erase_if(groups, [from](const Group& group) { return group.sequence < from; });
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.sequence < b.sequence; });
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].sequence != from + i) return false;
  }
  return true;
}

void CheckReplay(World& world, JournalReader& reader) {
  world.pool.fill('\x11');
  JournalReplay replay;
  const absl::Status status =
      ReplayJournal(reader, world.medium, &world.pool[kGuardBytes], kPoolBytes, {}, &replay);
  FUZZ_REQUIRE(status.ok() || fuzz::IsOnePrintableLine(status.message()), status.message());
  for (uint64_t i = 0; i < world.pool.size(); ++i) {
    const bool inside = i >= kGuardBytes && i < kGuardBytes + kPoolBytes;
    FUZZ_REQUIRE((inside && status.ok()) || world.pool[i] == '\x11',
                 "stored beside the pool, or of a journal that is refused");
  }
  if (status.ok()) FUZZ_REQUIRE(replay.groups == reader.groups(), "groups");
}

void Check(World& world, fuzz::InputReader input) {
  std::vector<Group> groups = Fill(world, input);
  uint64_t from = 1;
  for (unsigned slot = 0; slot < 2; ++slot) {
    uint64_t replay_from = 0;
    std::memcpy(&replay_from,
                &world.storage.content[kJournalCheckpointBegin + slot * kJournalBlock],
                sizeof replay_from);
    from = std::max(from, replay_from);
  }
  const bool sound = IsSound(groups, from);
  JournalReader reader(world.storage, kSegment, kSeed, &world.tracer);
  const absl::Status status = reader.Find();
  FUZZ_REQUIRE(status.ok() == sound, status.message());
  if (!status.ok()) {
    FUZZ_REQUIRE(fuzz::IsOnePrintableLine(status.message()), status.message());
    return;
  }
  FUZZ_REQUIRE(reader.groups() == groups.size(), "groups");
  size_t next = 0;
  const absl::Status read =
      reader.ForEach([&](uint64_t sequence, std::span<const std::byte> payload) {
        const Group& group = groups[next++];
        FUZZ_REQUIRE(sequence == group.sequence, "order");
        FUZZ_REQUIRE(payload.size() == group.payload.size() &&
                         std::memcmp(payload.data(), group.payload.data(), payload.size()) == 0,
                     "payload");
        return absl::OkStatus();
      });
  FUZZ_REQUIRE(read.ok(), read.message());
  CheckReplay(world, reader);
}

}  // namespace
}  // namespace lodgekv::pmem

// A byte: two checkpoints. Then for each block of the journal: what it is, and its group.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lodgekv::pmem::Check(lodgekv::pmem::TheWorld(), lodgekv::fuzz::InputReader(data, size));
  return 0;
}
