// Items of a scan that were copied out of the medium into one block of memory, until the visitor
// has seen them.
//
// The memory belongs to the thread and is reused from scan to scan, so a scan usually allocates
// nothing; a scan inside a visitor allocates its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "index/engine.h"

namespace lodgekv {

class ScanPage {
 public:
  ScanPage() { bytes_.swap(kept_); }
  ~ScanPage() {
    if (bytes_.size() <= kKeptBytes) bytes_.swap(kept_);
  }
  ScanPage(const ScanPage&) = delete;
  ScanPage& operator=(const ScanPage&) = delete;

  void Clear() { used_ = items_ = 0; }
  size_t used() const { return used_; }
  uint64_t items() const { return items_; }

  void Append(std::string_view key, std::string_view value, uint64_t version,
              uint64_t expiry_unix_ms) {
    const size_t end = used_ + kHeaderBytes + key.size() + value.size();
    if (end > bytes_.size()) bytes_.resize(std::max(end, 2 * bytes_.size()));
    char* to = bytes_.data() + used_;
    StoreWord(to, uint64_t{key.size()} << 32 | value.size());
    StoreWord(to + 8, version);
    StoreWord(to + 16, expiry_unix_ms);
    to += kHeaderBytes;
    std::memcpy(to, key.data(), key.size());
    if (!value.empty()) std::memcpy(to + key.size(), value.data(), value.size());
    used_ = end;
    ++items_;
  }

  // False: the visitor has ended the scan.
  bool Visit(ScanVisitor visitor) const {
    const char* at = bytes_.data();
    for (const char* const end = at + used_; at < end;) {
      const uint64_t lengths = LoadWord(at);
      const char* key = at + kHeaderBytes;
      const char* value = key + (lengths >> 32);
      const ScanItem item{
          {key, lengths >> 32}, {value, lengths & UINT32_MAX}, LoadWord(at + 8), LoadWord(at + 16)};
      at = value + item.value.size();
      if (!visitor(item)) return false;
    }
    return true;
  }

 private:
  // A thread keeps its memory up to this size.
  static constexpr size_t kKeptBytes = size_t{1} << 18;
  // Precedes key and value: their lengths in one word, the version and the expiry. Word by word: a
  // wide load right after narrow stores would stall.
  static constexpr size_t kHeaderBytes = 24;

  static void StoreWord(char* to, uint64_t word) { std::memcpy(to, &word, sizeof(word)); }
  static uint64_t LoadWord(const char* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    return word;
  }

  static inline thread_local std::string kept_;

  std::string bytes_;  // its size is the largest ever needed
  size_t used_ = 0;
  uint64_t items_ = 0;
};

}  // namespace lodgekv
