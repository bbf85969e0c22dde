// Space for the texts of separators (`bytes` keys): allocated, reference-counted, and freed.
//
// A separator is referred to by slots: of inner nodes, of nodes below, of what is on its way into
// them. Each slot is an owner: it calls Keep when it begins to refer to the text, and Release when
// it stops. A thread that holds a lock, or has validated inside an EpochGuard what led to a text,
// may read it: a text that has lost its last owner waits until the guards held at that moment have
// ended. A thread that has not validated anything yet may read it too, but may then see another
// text: so space is reused for texts of the same size class only, and whatever length is found
// there fits.
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
  // The lowest separator of all, which has no owners.
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

  // Without `hand_on`, texts that lost their last owner are not freed: for users that release few.
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
  // For a text that nobody but its owner has seen: freed at once.
  void Discard(const SeparatorText* text);
  void Free(const Batch& texts);

 private:
  static constexpr size_t kUnit = 16;
  static constexpr size_t kPiece = 1024;   // taken from the arena, for small texts
  static constexpr size_t kWaiting = 256;  // texts that go to hand_on together

  static size_t ClassOf(size_t length);
  void* Take(size_t bytes);

  DramArena& arena_;
  const HandOn hand_on_;
  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;  // by size
  char* piece_ = nullptr;
  size_t left_ = 0;  // of piece_
  Batch waiting_;
};

// Belongs to one thread among several that make texts for a tree: they do not contend, and the tree
// takes over the arenas in the end.
struct TextsOfThread {
  DramArena arena;
  SeparatorTexts texts{arena};
};

}  // namespace lodgekv
