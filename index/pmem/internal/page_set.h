// A set of the pool's pages of 4 KiB: one bit each. Not thread-safe.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace lodgekv::pmem {

class PageSet {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  // A range of the pool that contains `pages` pages of the set.
  struct Run {
    uint64_t begin = 0;  // bytes
    uint64_t bytes = 0;
    uint64_t pages = 0;
  };

  explicit PageSet(uint64_t pool_bytes) : bits_((pool_bytes / kPageBytes + 64) / 64) {}

  void Add(uint64_t page) {
    uint64_t& word = bits_[page / 64];
    const uint64_t bit = uint64_t{1} << page % 64;
    count_ += (word & bit) == 0 ? 1 : 0;
    word |= bit;
  }
  void Clear() {
    bits_.assign(bits_.size(), 0);
    count_ = 0;
  }
  uint64_t count() const { return count_; }

  // The next range from page `from` on that ends with a page of the set and contains at most
  // `most_pages` of them; pages == 0: there is none.
  Run Next(uint64_t from, uint64_t most_pages) const {
    Run run;
    for (uint64_t page = Find(from); page != kNone && run.pages < most_pages;
         page = Find(page + 1)) {
      if (run.pages++ == 0) run.begin = page * kPageBytes;
      run.bytes = (page + 1) * kPageBytes - run.begin;
    }
    return run;
  }

 private:
  static constexpr uint64_t kNone = UINT64_MAX;

  // The first page of the set from `from` on.
  uint64_t Find(uint64_t from) const {
    for (uint64_t i = from / 64; i < bits_.size(); ++i) {
      uint64_t word = bits_[i];
      if (i == from / 64) word &= ~uint64_t{0} << from % 64;
      if (word != 0) return i * 64 + static_cast<uint64_t>(std::countr_zero(word));
    }
    return kNone;
  }

  std::vector<uint64_t> bits_;
  uint64_t count_ = 0;
};

}  // namespace lodgekv::pmem
