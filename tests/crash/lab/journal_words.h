// The words of a pool under a journal, and what a crash may leave of each: every store writes a
// number that tells the word and how many stores were before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/pmem/medium.h"
#include "tests/support/random.h"

namespace lodgekv::test {

class JournalWords {
 public:
  static constexpr uint64_t kWordsOfLine = pmem::kLineBytes / sizeof(uint64_t);

  // Of the lines with these numbers, in the pool.
  explicit JournalWords(std::vector<uint64_t> lines)
      : lines_(std::move(lines)), words_(lines_.size() * kWordsOfLine) {}

  uint64_t lines() const { return lines_.size(); }
  uint64_t words() const { return words_.size(); }
  uint64_t LineOffset(uint64_t line) const { return lines_[line] * pmem::kLineBytes; }
  uint64_t Offset(uint64_t word) const {
    return LineOffset(word / kWordsOfLine) + word % kWordsOfLine * sizeof(uint64_t);
  }

  // What the next store to it writes.
  uint64_t Next(uint64_t word) {
    words_[word].last = words_[word].next++;
    return Value(word, words_[word].last);
  }
  // The store that it holds now.
  uint64_t Last(uint64_t word) const { return words_[word].last; }
  // A fence has made durable what it held at that store.
  void Raise(uint64_t word, uint64_t store) {
    words_[word].floor = std::max(words_[word].floor, store);
  }
  // Its space is somebody else's: nothing is promised of it.
  void Forget(uint64_t word) { words_[word].floor = words_[word].first = 0; }

  // Nothing: `pool` is allowed.
  std::optional<std::string> Check(std::span<const std::byte> pool) const;
  // `pool` is what is there from here on.
  void Adopt(std::span<const std::byte> pool);

 private:
  struct Word {
    uint64_t next = 1;
    uint64_t last = 0;
    uint64_t floor = 0;
    uint64_t first = 1;    // of this life
    uint64_t adopted = 0;  // of the life before
  };
  static uint64_t Value(uint64_t word, uint64_t store) { return store << 32 | word; }
  uint64_t Read(std::span<const std::byte> pool, uint64_t word) const;

  std::vector<uint64_t> lines_;
  std::vector<Word> words_;
};

}  // namespace lodgekv::test
