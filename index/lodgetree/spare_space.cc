#include "index/lodgetree/spare_space.h"

#include <algorithm>

#include "index/lodgetree/layout.h"
#include "index/node/record.h"

namespace lodgekv::lodgetree {

void LongestKey::Raise(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes <= bytes_.load(std::memory_order_relaxed)) return;
  pmem::Medium& medium = pool_.medium();
  pmem::Word& word = pool_.engine_area()[media::kLongestKey];
  medium.Store(word, CheckedWord(bytes));
  medium.Persist(&word, sizeof(word));
  bytes_.store(bytes, std::memory_order_release);
}

uint64_t SpareSpace::BytesOfFence(const SpareSource& source) {
  return RecordBytes(source.longest_key.bytes(), 0, false);
}

bool SpareSpace::Ensure(const SpareSource& source, size_t count, pmem::ReservePolicy policy) {
  if (!EnsureLeaves(source, count, policy)) return false;
  return !source.fences || EnsureFences(source, BytesOfFence(source), count, policy);
}

bool SpareSpace::EnsureFor(const SpareSource& source, uint64_t longest_key, size_t count,
                           pmem::ReservePolicy policy) {
  if (!EnsureLeaves(source, count, policy)) return false;
  return !source.fences || EnsureFences(source, RecordBytes(longest_key, 0, false), count, policy);
}

bool SpareSpace::EnsureLeaves(const SpareSource& source, size_t count, pmem::ReservePolicy policy) {
  while (leaves_.size() < count) {
    const pmem::Offset leaf = source.leaves.Allocate(policy);
    if (leaf == 0) return false;
    leaves_.push_back(leaf);
  }
  return true;
}

bool SpareSpace::FencesAreLongEnough(const SpareSource& source) const {
  return fences_.empty() || fences_.back().bytes >= BytesOfFence(source);
}

// Where only the space of a longer one is free, as of a fence that an operation had set aside, that
// will do: the slab itself wastes no more than three quarters.
SpareSpace::Fence SpareSpace::AllocateFence(const SpareSource& source, uint64_t bytes,
                                            pmem::ReservePolicy policy) {
  const uint64_t most = std::max(bytes, BytesOfFence(source));
  for (;; bytes = std::min(4 * bytes, most)) {
    const pmem::Offset space = source.slab.Allocate(bytes, policy);
    if (space != 0 || bytes == most) return {space, bytes};
  }
}

// Those that have become too short are kept until there are longer ones: for an operation that has
// locked its nodes by now they are long enough, since no longer key can come into these.
bool SpareSpace::EnsureFences(const SpareSource& source, uint64_t bytes, size_t count,
                              pmem::ReservePolicy policy) {
  const auto first_short =
      std::ranges::find_if(fences_, [&](const Fence& fence) { return fence.bytes < bytes; });
  std::vector<Fence> too_short(first_short, fences_.end());
  fences_.erase(first_short, fences_.end());
  // Few spares of very long keys must suffice: a drain that splits ensures one before it begins.
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  count = std::min<uint64_t>(count, std::max<uint64_t>(1, kMostBytes / bytes));
  std::vector<Fence> longer;
  while (fences_.size() + longer.size() < count) {
    const Fence fence = AllocateFence(source, bytes, policy);
    if (fence.space == 0) break;
    longer.push_back(fence);
  }
  const bool enough = fences_.size() + longer.size() >= count;
  if (!enough && !too_short.empty()) longer.swap(too_short);
  for (const Fence& fence : too_short) source.slab.Free(fence.space);
  for (const Fence& fence : longer) Insert(fence);
  return enough;
}

void SpareSpace::Insert(const Fence& fence) {
  const auto behind =
      std::ranges::find_if(fences_, [&](const Fence& other) { return other.bytes < fence.bytes; });
  fences_.insert(behind, fence);
}

void SpareSpace::Prefetch(const pmem::Pool& pool, size_t count) const {
  for (size_t at = leaves_.size(); at > 0 && count > 0; --at, --count) {
    const char* line = pool.At<char>(leaves_[at - 1]);
    for (unsigned i = 0; i < kLeafLines; ++i) __builtin_prefetch(line + i * pmem::kLineBytes, 1, 3);
  }
}

// For as many leaves, unless they are long.
size_t SpareSpace::KeptFences() const {
  if (fences_.empty()) return 0;
  return std::clamp<size_t>(kKeptFenceBytes / fences_.back().bytes, kLeastFences, kKeptLeaves);
}

void SpareSpace::Trim(const SpareSource& source) {
  // In a full pool a leaf that a delete took from the reserve would be used by the next put.
  const bool tight = source.pool.tight();
  const size_t leaves = tight ? 0 : kKeptLeaves;
  const size_t fences = tight ? 0 : KeptFences();
  FreeAbove(source, leaves, fences);
}

void SpareSpace::FreeAbove(const SpareSource& source, size_t leaves, size_t fences) {
  for (; leaves_.size() > leaves; leaves_.pop_back()) source.leaves.Free(leaves_.back());
  for (; fences_.size() > fences; fences_.pop_back()) source.slab.Free(fences_.back().space);
}

uint64_t SpareSpace::fence_bytes(const pmem::RecordSlab& slab) const {
  uint64_t bytes = 0;
  for (const Fence& fence : fences_) bytes += slab.SpaceAt(fence.space);
  return bytes;
}

pmem::Offset SpareSpace::TakeLeaf() {
  const pmem::Offset leaf = leaves_.back();
  leaves_.pop_back();
  return leaf;
}

SpareSpace::Fence SpareSpace::TakeFence() {
  const Fence fence = fences_.back();
  fences_.pop_back();
  return fence;
}

}  // namespace lodgekv::lodgetree
