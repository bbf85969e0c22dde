#include "index/pmem/internal/journal_group.h"

#include <algorithm>
#include <cstring>

#include "index/pmem/internal/group_crc.h"

namespace lodgekv::pmem {
namespace {

constexpr size_t kWordsPerLine = kLineBytes / sizeof(uint64_t);

// Other threads may store to the line meanwhile: each word is read atomically, as a disk would see
// it. Any part of what is not yet flushed and fenced may be included; so the race is harmless.
__attribute__((no_sanitize("thread"))) void CopyLine(std::byte* to, const char* from) {
  for (size_t i = 0; i < kWordsPerLine; ++i) {
    const uint64_t word = __atomic_load_n(
        reinterpret_cast<const uint64_t*>(from + i * sizeof(uint64_t)), __ATOMIC_RELAXED);
    std::memcpy(to + i * sizeof word, &word, sizeof word);
  }
}

}  // namespace

JournalGroupBuffer::JournalGroupBuffer(uint64_t bytes, uint64_t pool_lines,
                                       const ForeignWords& foreign)
    : capacity_(bytes), pool_lines_(pool_lines), foreign_(foreign), memory_(MakeBlocks(bytes)) {}

void JournalGroupBuffer::Append(uint64_t word) {
  std::memcpy(&memory_[used_], &word, sizeof word);
  used_ += sizeof word;
}

// How many of `lines`, from the front, are adjacent and fit into one entry.
uint64_t JournalGroupBuffer::RunAt(std::span<const uint64_t> lines) const {
  const uint8_t words = foreign_.OursOf(lines[0]);
  const size_t most = std::min<size_t>(lines.size(), JournalEntry::kMostLines);
  size_t run = 1;
  while (run < most && lines[run] == lines[0] + run && foreign_.OursOf(lines[run]) == words) ++run;
  return run;
}

size_t JournalGroupBuffer::Capture(const char* base, std::span<const uint64_t> lines,
                                   const LaterStores& before) {
  size_t done = 0;
  while (done < lines.size()) {
    const uint64_t room = capacity_ - used_;
    if (room < sizeof(uint64_t) + kLineBytes) break;
    const uint64_t run =
        std::min(RunAt(lines.subspan(done)), (room - sizeof(uint64_t)) / kLineBytes);
    const uint64_t line = lines[done];
    Append(JournalEntry{line, static_cast<uint8_t>(run), foreign_.OursOf(line)}.Encode());
    for (uint64_t i = 0; i < run; ++i, used_ += kLineBytes) {
      CopyLine(&memory_[used_], base + (line + i) * kLineBytes);
      before.Patch(line + i, &memory_[used_]);
      later_.Patch(line + i, &memory_[used_]);
    }
    done += run;
  }
  return done;
}

bool JournalGroupBuffer::AddRevocation(uint64_t first_line, uint64_t lines) {
  if (capacity_ - used_ < 2 * sizeof(uint64_t)) return false;
  Append(JournalEntry{first_line, 0}.Encode());
  Append(std::min(lines, pool_lines_ - first_line));
  return true;
}

std::span<const std::byte> JournalGroupBuffer::Seal(uint64_t sequence, uint32_t crc_seed) {
  media::JournalGroup header{};
  header.magic = media::kGroupMagic;
  header.sequence = sequence;
  header.payload_bytes = static_cast<uint32_t>(used_ - sizeof header);
  std::memcpy(&memory_[0], &header, sizeof header);
  header.crc = GroupCrc(crc_seed, &memory_[0], used_);
  std::memcpy(&memory_[0], &header, sizeof header);
  std::memset(&memory_[used_], 0, bytes() - used_);
  return {&memory_[0], bytes()};
}

}  // namespace lodgekv::pmem
