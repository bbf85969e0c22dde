#include "tests/crash/lab/tracer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "index/node/epoch.h"
#include "index/pmem/worker_slot.h"

namespace lodgekv::test {

std::string ModelName(CrashModel model) {
  return model == CrashModel::kLinePrefix ? "line prefixes" : "torn words";
}

CrashTracer::CrashTracer(std::span<const std::byte> memory, Fault fault, const CrashTracer* killed)
    : memory_(memory), fault_(fault), durable_(memory.size()) {
  const std::span<const std::byte> durable = killed != nullptr ? killed->durable() : memory;
  std::memcpy(durable_.span().data(), durable.data(), durable.size());
  if (killed != nullptr) {
    lines_ = killed->lines_;
    dirty_ = killed->dirty_;
    stores_ = killed->stores_;
    // When a process ends, its buffers of streamed words are written out: a successor that sees
    // such a word can flush it like any other.
    for (const uint32_t line : dirty_) {
      for (PendingStore& store : lines_[line]) store.stream = false;
    }
  }
  lines_.resize(memory.size() / pmem::kLineBytes);
}

CrashTracer::Thread& CrashTracer::Current(uint32_t* number) {
  const uint32_t slot = pmem::CurrentWorkerSlot();
  if (number != nullptr) *number = slot;
  return threads_[slot];
}

size_t CrashTracer::OffsetOf(const void* address) const {
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(address) - memory_.data());
  if (offset >= memory_.size()) {
    throw std::out_of_range("a store or flush through the seam outside of the pool's memory");
  }
  return offset;
}

void CrashTracer::AddStore(size_t offset, uint32_t thread, bool stream) {
  uint64_t value;
  std::memcpy(&value, memory_.data() + offset, kWordBytes);
  const auto line = static_cast<uint32_t>(offset / pmem::kLineBytes);
  if (lines_[line].empty()) dirty_.push_back(line);
  lines_[line].push_back(
      {static_cast<uint32_t>(offset / kWordBytes), thread, ++stores_, value, stream});
}

void CrashTracer::OnStore(const void* dst, size_t bytes, bool stream) {
  if (bytes == 0) return;
  uint32_t number;
  Thread& thread = Current(&number);
  const size_t begin = OffsetOf(dst);
  const size_t end = begin + bytes;
  for (size_t at = begin / kWordBytes * kWordBytes; at < end; at += kWordBytes) {
    AddStore(at, number, stream);
  }
  if (!stream) return;
  for (size_t at = begin / pmem::kLineBytes; at * pmem::kLineBytes < end; ++at) {
    thread.marks.push_back({static_cast<uint32_t>(at), stores_, true});
  }
}

void CrashTracer::OnFlush(const void* line) {
  Thread& thread = Current();
  if (thread.drops_flushes) {
    fault_happened_ = true;
    return;
  }
  auto number = static_cast<uint32_t>(OffsetOf(line) / pmem::kLineBytes);
  if (thread.flushes_elsewhere && number + 1 < lines_.size()) {
    fault_happened_ = true;
    ++number;
  }
  thread.marks.push_back({number, stores_, false});
}

// Makes durable what the mark covers. Older stores to the same words that wait for another flush
// can no longer reach the medium.
void CrashTracer::Settle(const Mark& mark, uint32_t thread) {
  std::vector<PendingStore>& stores = lines_[mark.line];
  std::array<uint64_t, kWordsOfLine> newest{};
  const auto settles = [&](const PendingStore& store) {
    if (store.number > mark.up_to) return false;
    return mark.stream ? store.stream && store.thread == thread : !store.stream;
  };
  for (const PendingStore& store : stores) {
    if (!settles(store)) continue;
    std::memcpy(durable_.span().data() + store.word * kWordBytes, &store.value, kWordBytes);
    newest[store.word % kWordsOfLine] = store.number;
  }
  std::erase_if(stores, [&](const PendingStore& store) {
    return store.number <= newest[store.word % kWordsOfLine];
  });
}

void CrashTracer::OnFence() {
  ++fences_;
  if (before_fence && !EpochGuard::IsHeld()) before_fence();
  uint32_t number;
  Thread& thread = Current(&number);
  thread.drops_flushes = false;
  thread.flushes_elsewhere = false;
  if (thread.drops_fence) {
    thread.drops_fence = false;
    fault_happened_ = true;
    return;
  }
  for (const Mark& mark : thread.marks) Settle(mark, number);
  thread.marks.clear();
  std::erase_if(dirty_, [&](uint32_t line) { return lines_[line].empty(); });
}

void CrashTracer::OnCrashPoint(std::string_view name) {
  last_point_ = *crash_points_.emplace(name).first;
  if (name != fault_.where) return;
  Thread& thread = Current();
  switch (fault_.kind) {
    case Fault::Kind::kDropFence: thread.drops_fence = true; break;
    case Fault::Kind::kDropFlushes: thread.drops_flushes = true; break;
    case Fault::Kind::kFlushElsewhere: thread.flushes_elsewhere = true; break;
    case Fault::Kind::kForgetFlushes:
      fault_happened_ = fault_happened_ || !thread.marks.empty();
      thread.marks.clear();
      break;
    case Fault::Kind::kNone:
    case Fault::Kind::kOrderByFences:
    case Fault::Kind::kAsk:
    case Fault::Kind::kLateFence:
    case Fault::Kind::kIgnoreEpochs:
    case Fault::Kind::kIgnoreMutexes: break;
  }
}

bool CrashTracer::OnCanary(std::string_view name) {
  const bool asked = fault_.kind == Fault::Kind::kAsk && name == fault_.where;
  fault_happened_ = fault_happened_ || asked;
  return asked;
}

}  // namespace lodgekv::test
