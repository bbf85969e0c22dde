#include "index/pmem/internal/journal_replay.h"

#include <cstring>

#include "absl/strings/str_format.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::pmem {

void RevokedLines::Add(uint64_t begin, uint64_t end, uint64_t number) {
  if (begin == end) return;
  // Parts of older stretches before and after it stay.
  auto it = stretches_.upper_bound(begin);
  if (it != stretches_.begin()) --it;
  while (it != stretches_.end() && it->first < end) {
    const uint64_t old_begin = it->first;
    const Stretch old = it->second;
    if (old.end <= begin) {
      ++it;
      continue;
    }
    it = stretches_.erase(it);
    if (old_begin < begin) stretches_[old_begin] = {begin, old.number};
    if (old.end > end) stretches_[end] = old;
  }
  stretches_[begin] = {end, number};
}

bool RevokedLines::RevokedAfter(uint64_t line, uint64_t number) const {
  auto it = stretches_.upper_bound(line);
  if (it == stretches_.begin()) return false;
  --it;
  return line < it->second.end && it->second.number > number;
}

namespace {

// Decodes a payload: calls lines(entry, contents) and revoked(first line, count).
template <class Lines, class Revoked>
absl::Status ForEachEntry(uint64_t sequence, std::span<const std::byte> payload,
                          uint64_t pool_lines, Lines lines, Revoked revoked) {
  const auto nonsense = [&] {
    return absl::DataLossError(
        absl::StrFormat("it is damaged: group %u holds an entry that makes no sense", sequence));
  };
  const auto take_word = [&] {
    uint64_t word;
    std::memcpy(&word, payload.data(), sizeof word);
    payload = payload.subspan(sizeof word);
    return word;
  };
  while (!payload.empty()) {
    if (payload.size() < sizeof(uint64_t)) return nonsense();
    const JournalEntry entry = JournalEntry::Decode(take_word());
    if (entry.lines == 0) {
      if (payload.size() < sizeof(uint64_t)) return nonsense();
      const uint64_t count = take_word();
      if (entry.line > pool_lines || count > pool_lines - entry.line) return nonsense();
      revoked(entry.line, count);
      continue;
    }
    const size_t bytes = entry.lines * kLineBytes;
    if (payload.size() < bytes || entry.line + entry.lines > pool_lines) return nonsense();
    lines(entry, payload.first(bytes));
    payload = payload.subspan(bytes);
  }
  return absl::OkStatus();
}

void StoreLine(Medium& medium, char* line, const std::byte* content, uint8_t words) {
  if (words == JournalEntry::kAllWords) {
    medium.StoreBulk(line, content, kLineBytes);
  } else {
    for (unsigned i = 0; i < kLineBytes / sizeof(Word); ++i) {
      if ((words >> i & 1) == 0) continue;
      uint64_t word;
      std::memcpy(&word, content + i * sizeof word, sizeof word);
      medium.Store(*reinterpret_cast<Word*>(line + i * sizeof(Word)), word);
    }
  }
  medium.FlushLine(line);
}

}  // namespace

absl::Status ReplayJournal(JournalReader& reader, Medium& medium, char* base, uint64_t pool_bytes,
                           const ForeignWords& foreign, JournalReplay* replay) {
  const uint64_t pool_lines = pool_bytes / kLineBytes;
  RevokedLines revoked;
  uint64_t number = 0;
  absl::Status status = reader.ForEach([&](uint64_t sequence, std::span<const std::byte> payload) {
    return ForEachEntry(
        sequence, payload, pool_lines,
        [&](const JournalEntry&, std::span<const std::byte>) { ++number; },
        [&](uint64_t line, uint64_t count) { revoked.Add(line, line + count, ++number); });
  });
  if (!status.ok()) return status;

  // Nothing is stored before all entries are known to be valid.
  number = 0;
  const bool for_ever = medium.Canary("pmem.journal.revoked_for_ever");
  const bool all_words = medium.Canary("pmem.journal.foreign_words");
  return reader.ForEach([&](uint64_t sequence, std::span<const std::byte> payload) {
    ++replay->groups;
    return ForEachEntry(
        sequence, payload, pool_lines,
        [&](const JournalEntry& entry, std::span<const std::byte> contents) {
          ++number;
          for (uint64_t i = 0; i < entry.lines; ++i) {
            const uint64_t line = entry.line + i;
            if (revoked.RevokedAfter(line, for_ever ? 0 : number)) continue;
            const auto words = static_cast<uint8_t>(entry.words & foreign.OursOf(line));
            StoreLine(medium, base + line * kLineBytes, &contents[i * kLineBytes],
                      all_words ? JournalEntry::kAllWords : words);
            ++replay->lines;
          }
          LODGEKV_CRASH_POINT(medium, "pmem.journal_replay.1");
        },
        [&](uint64_t, uint64_t) { ++number; });
  });
}

}  // namespace lodgekv::pmem
