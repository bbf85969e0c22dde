#include "index/sptree/buffer_pool.h"

#include <algorithm>
#include <new>

namespace lodgekv::sptree {

namespace {
// The arena's units are larger than a part.
constexpr size_t kFreshAtOnce = 8;
}  // namespace

WriteBuffer* BufferPool::New(FreeParts& own, Limited limited) {
  BufferPart* head = Take(own.heads, shared_.heads, sizeof(WriteBuffer), limited);
  if (head == nullptr) return nullptr;
  auto* buffer = reinterpret_cast<WriteBuffer*>(head);
  buffer->first.next = nullptr;
  buffer->newest = 0;
  buffer->count = buffer->inserts = 0;
  buffer->holds_space = false;
  return buffer;
}

bool BufferPool::Grow(FreeParts& own, Limited limited, WriteBuffer* buffer) {
  if (!buffer->PartsFull()) return true;
  BufferPart* part = Take(own.parts, shared_.parts, sizeof(BufferPart), limited);
  if (part == nullptr) return false;
  part->next = nullptr;
  buffer->Append(part);
  return true;
}

void BufferPool::Free(FreeParts& own, WriteBuffer* buffer) {
  BufferPart* part = buffer->first.next;
  while (part != nullptr) {
    BufferPart* next = part->next;
    Give(own.parts, shared_.parts, part);
    part = next;
  }
  Give(own.heads, shared_.heads, &buffer->first);
}

BufferPart* BufferPool::Take(Chain& own, Chain& shared, size_t bytes, Limited limited) {
  if (own.count == 0) Refill(own, shared, bytes, limited);
  return own.count == 0 ? nullptr : own.Pop();
}

void BufferPool::Refill(Chain& own, Chain& shared, size_t bytes, Limited limited) {
  const std::lock_guard lock(mutex_);
  for (size_t n = std::min(kBatch, shared.count); n > 0; --n) own.Push(shared.Pop());
  if (own.count != 0) return;
  const uint64_t more = kFreshAtOnce * bytes;
  if (limited == Limited::kYes && this->bytes() + more > limit_()) return;
  auto* fresh = static_cast<std::byte*>(dram_.Allocate(more));
  for (size_t i = 0; i < kFreshAtOnce; ++i) {
    std::byte* at = fresh + i * bytes;
    own.Push(bytes == sizeof(WriteBuffer) ? &(new (at) WriteBuffer{})->first
                                          : new (at) BufferPart{});
  }
  bytes_.store(this->bytes() + more, std::memory_order_relaxed);
}

void BufferPool::Give(Chain& own, Chain& shared, BufferPart* part) {
  own.Push(part);
  if (own.count < 2 * kBatch) return;
  const std::lock_guard lock(mutex_);
  for (size_t n = kBatch; n > 0; --n) shared.Push(own.Pop());
}

}  // namespace lodgekv::sptree
