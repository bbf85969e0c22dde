// The words of a pool under a journal, and what a crash may leave of each. Every store writes a
// number that identifies the word and counts the stores before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/pmem/medium.h"
#include "tests/support/random.h"

namespace lodgekv::test {

class JournalWords {
 public:
  static constexpr uint64_t kWordsOfLine = pmem::kLineBytes / sizeof(uint64_t);

  // `lines`: numbers of lines in the pool.
  explicit JournalWords(std::vector<uint64_t> lines)
      : lines_(std::move(lines)), words_(lines_.size() * kWordsOfLine) {}

  uint64_t lines() const { return lines_.size(); }
  uint64_t words() const { return words_.size(); }
  uint64_t LineOffset(uint64_t line) const { return lines_[line] * pmem::kLineBytes; }
  uint64_t Offset(uint64_t word) const {
    return LineOffset(word / kWordsOfLine) + word % kWordsOfLine * sizeof(uint64_t);
  }

  // The value of the next store to the word.
  uint64_t Next(uint64_t word) {
    words_[word].last = words_[word].next++;
    return Value(word, words_[word].last);
  }
  // A store of the word, for which everything of `before` has to be durable.
  struct Made {
    uint64_t word = 0;
    uint64_t store = 0;
  };
  // The value of a store that is made later, behind `before`; Last is as before.
  uint64_t NextBehind(uint64_t word, std::vector<Made> before, Made* made) {
    *made = {word, words_[word].next++};
    behind_.push_back({*made, std::move(before)});
    return Value(word, made->store);
  }
  void NoteMade(Made made) { words_[made.word].last = made.store; }
  // The store that the word holds now.
  uint64_t Last(uint64_t word) const { return words_[word].last; }
  // A fence has made the content at that store durable.
  void Raise(uint64_t word, uint64_t store) {
    words_[word].floor = std::max(words_[word].floor, store);
  }
  // The space has another owner: nothing is promised about it.
  void Forget(uint64_t word) { words_[word].floor = words_[word].first = 0; }

  // Returns nothing if the crash model allows `pool`.
  std::optional<std::string> Check(std::span<const std::byte> pool) const;
  // Continues from `pool`.
  void Adopt(std::span<const std::byte> pool);

 private:
  struct Word {
    uint64_t next = 1;
    uint64_t last = 0;
    uint64_t floor = 0;
    uint64_t first = 1;    // of this run
    uint64_t adopted = 0;  // of the run before
  };
  struct Behind {
    Made made;
    std::vector<Made> before;
  };
  std::optional<std::string> CheckOrder(std::span<const std::byte> pool) const;
  static uint64_t Value(uint64_t word, uint64_t store) { return store << 32 | word; }
  uint64_t Read(std::span<const std::byte> pool, uint64_t word) const;

  std::vector<uint64_t> lines_;
  std::vector<Word> words_;
  std::vector<Behind> behind_;  // of this run
};

}  // namespace lodgekv::test
