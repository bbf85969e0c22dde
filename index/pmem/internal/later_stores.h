// Stores of single words that wait for their group (Journal::StoreLater): the group's copies of
// their lines have them, the pool does not yet. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "index/pmem/medium.h"

namespace lodgekv::pmem {

struct LaterStore {
  uint64_t word;  // its number in the pool
  uint64_t value;

  uint64_t line() const { return word / kWordsOfLine; }
  static constexpr uint64_t kWordsOfLine = kLineBytes / sizeof(uint64_t);
};

class LaterStores {
 public:
  // In the order in which they will be made.
  std::span<const LaterStore> stores() const { return stores_; }

  void Add(const LaterStore& store) {
    stores_.push_back(store);
    Words& words = lines_[store.line()];
    const uint64_t word = store.word % LaterStore::kWordsOfLine;
    words.stored |= static_cast<uint8_t>(1U << word);
    words.values[word] = store.value;
  }
  void Clear() {
    stores_.clear();
    lines_.clear();
  }
  // Makes them in `copy`, which is one of the line.
  void Patch(uint64_t line, std::byte* copy) const {
    if (lines_.empty()) return;
    const auto found = lines_.find(line);
    if (found == lines_.end()) return;
    for (uint64_t word = 0; word < LaterStore::kWordsOfLine; ++word) {
      if ((found->second.stored >> word & 1) == 0) continue;
      std::memcpy(copy + word * sizeof(uint64_t), &found->second.values[word], sizeof(uint64_t));
    }
  }

 private:
  struct Words {
    uint8_t stored = 0;  // one bit for each
    std::array<uint64_t, LaterStore::kWordsOfLine> values{};
  };

  std::vector<LaterStore> stores_;
  absl::flat_hash_map<uint64_t, Words> lines_;
};

}  // namespace lodgekv::pmem
