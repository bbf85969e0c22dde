#include "index/node/separator_texts.h"

#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "index/pmem/last_words.h"

namespace lodgekv {

namespace {
// A slot may still refer to it, and would soon refer to another text.
[[noreturn]] void DieOfTooFewOwners() {
  pmem::LastWords words;
  words.Add("separator texts: one was given up more often than it was owned\n");
  words.Abort();
}
}  // namespace

// Up to the size of a piece, multiples of a unit; above it, four sizes to a doubling.
size_t SeparatorTexts::ClassOf(size_t length) {
  const size_t bytes = sizeof(SeparatorText) + length;
  const size_t step = bytes <= kPiece ? kUnit : std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

void* SeparatorTexts::Take(size_t bytes) {
  auto& free = free_[bytes];
  if (!free.empty()) {
    void* space = free.back();
    free.pop_back();
    return space;
  }
  if (bytes > kPiece) return arena_.Allocate(bytes);
  if (bytes > left_) {
    if (left_ > 0) free_[left_].push_back(piece_);
    piece_ = static_cast<char*>(arena_.Allocate(kPiece));
    left_ = kPiece;
  }
  left_ -= bytes;
  return std::exchange(piece_, piece_ + bytes);
}

const SeparatorText* SeparatorTexts::New(std::string_view text) {
  if (text.empty()) return SeparatorText::Empty();
  void* space;
  {
    const std::lock_guard lock(mutex_);
    space = Take(ClassOf(text.size()));
  }
  auto* result = new (space) SeparatorText{static_cast<uint32_t>(text.size()), 1};
  std::memcpy(static_cast<char*>(space) + sizeof(SeparatorText), text.data(), text.size());
  return result;
}

void SeparatorTexts::Release(const SeparatorText* text) {
  if (text->length == 0) return;
  const uint32_t owners = text->owners.fetch_sub(1, std::memory_order_acq_rel);
  if (owners == 0) DieOfTooFewOwners();
  if (owners > 1) return;
  Batch full;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(text);
    if (hand_on_ != nullptr && waiting_.size() >= kWaiting) full.swap(waiting_);
  }
  if (!full.empty()) hand_on_(std::move(full));
}

void SeparatorTexts::Discard(const SeparatorText* text) {
  if (text->length != 0) Free({text});
}

void SeparatorTexts::Free(const Batch& texts) {
  const std::lock_guard lock(mutex_);
  for (const SeparatorText* text : texts) {
    free_[ClassOf(text->length)].push_back(const_cast<SeparatorText*>(text));
  }
}

}  // namespace lodgekv
