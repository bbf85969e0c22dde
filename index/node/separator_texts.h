// Space for the texts of separators (`bytes` keys): handed out, owned, and given back.
//
// A separator is referred to by slots: of inner nodes, of nodes below, of what is on its way into
// them. Each slot is an owner, which says so by Keep and gives up by Release. Who holds a lock, or
// has validated inside an EpochGuard what led to a text, may read it: a text that has lost its last
// owner waits until the guards of that moment have ended. Who has validated nothing yet may read it
// too, and then what it reads may be another text by now: so space is used again for texts of one
// size class only, and whatever length is found there fits.
//
// Thread-safe, under any lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "index/node/dram_arena.h"

namespace lodgekv {

struct SeparatorText {
  uint32_t length;
  mutable std::atomic<uint32_t> owners;

  std::string_view view() const {
    return {reinterpret_cast<const char*>(this) + sizeof(*this), length};
  }
  // The lowest of all, which nobody owns.
  static const SeparatorText* Empty() {
    static constinit const SeparatorText empty{0, 0};
    return &empty;
  }
};

class SeparatorTexts {
 public:
  using Batch = std::vector<const SeparatorText*>;
  // Calls Free for them when all EpochGuards that are held now have ended.
  using HandOn = std::function<void(Batch)>;

  // Without `hand_on` texts that lost their last owner are kept, for who never gives many up.
  explicit SeparatorTexts(DramArena& arena, HandOn hand_on = {})
      : arena_(arena), hand_on_(std::move(hand_on)) {}
  SeparatorTexts(const SeparatorTexts&) = delete;
  SeparatorTexts& operator=(const SeparatorTexts&) = delete;

  // With one owner.
  const SeparatorText* New(std::string_view text);
  static void Keep(const SeparatorText* text) {
    if (text->length != 0) text->owners.fetch_add(1, std::memory_order_relaxed);
  }
  void Release(const SeparatorText* text);
  // Of a text that nobody but its owner has seen.
  void Discard(const SeparatorText* text);
  void Free(const Batch& texts);

 private:
  static constexpr size_t kUnit = 16;
  static constexpr size_t kPiece = 1024;   // taken from the arena, for small texts
  static constexpr size_t kWaiting = 256;  // texts that are handed on together

  static size_t ClassOf(size_t length);
  void* Take(size_t bytes);

  DramArena& arena_;
  const HandOn hand_on_;
  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;  // by size
  char* piece_ = nullptr;
  size_t left_ = 0;  // of it
  Batch waiting_;
};

// Of one thread among several that make texts for a tree: they do not wait for one another, and the
// tree takes the arena over in the end.
struct TextsOfThread {
  DramArena arena;
  SeparatorTexts texts{arena};
};

}  // namespace lodgekv
