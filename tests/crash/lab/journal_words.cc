#include "tests/crash/lab/journal_words.h"

#include <cstring>

namespace lodgekv::test {

uint64_t JournalWords::Read(std::span<const std::byte> pool, uint64_t word) const {
  uint64_t value;
  std::memcpy(&value, pool.data() + Offset(word), sizeof value);
  return value;
}

std::optional<std::string> JournalWords::Check(std::span<const std::byte> pool) const {
  for (uint64_t i = 0; i < words_.size(); ++i) {
    const Word& word = words_[i];
    const uint64_t value = Read(pool, i);
    const uint64_t store = value >> 32;
    // Words that were never stored to are zero.
    const bool sane = value == 0 || (value & UINT32_MAX) == i;
    const bool known = store < word.next && (store == word.adopted || store >= word.first);
    if (sane && known && store >= word.floor) continue;
    return absl::StrCat("word ", i, " of line ", lines_[i / kWordsOfLine], " holds 0x",
                        absl::Hex(value), ": store ", store, " of ", word.next - 1, ", ",
                        word.floor, " is durable, this run's begin at ", word.first,
                        ", the last has left ", word.adopted);
  }
  return CheckOrder(pool);
}

std::optional<std::string> JournalWords::CheckOrder(std::span<const std::byte> pool) const {
  for (const Behind& behind : behind_) {
    if (Read(pool, behind.made.word) >> 32 != behind.made.store) continue;
    for (const Made& made : behind.before) {
      const uint64_t store = Read(pool, made.word) >> 32;
      if (store >= made.store) continue;
      return absl::StrCat("word ", behind.made.word, " holds its store ", behind.made.store,
                          ", which is behind store ", made.store, " of word ", made.word,
                          "; that holds ", store);
    }
  }
  return {};
}

void JournalWords::Adopt(std::span<const std::byte> pool) {
  for (uint64_t i = 0; i < words_.size(); ++i) {
    Word& word = words_[i];
    word.adopted = word.floor = word.last = Read(pool, i) >> 32;
    word.first = word.next;
  }
  behind_.clear();
}

}  // namespace lodgekv::test
