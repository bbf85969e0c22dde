// Scan: leaf by leaf (node/leaf_scan.h). Each leaf's pairs and those buffered for it are read under
// one version of the node; buffered ones take precedence.
//
// The position in a node is not searched again for every leaf: while the node's version is
// unchanged, the next leaf is its neighbour there, and the node's high fence leads to the next
// node.
#include <algorithm>
#include <bit>

#include "index/lodgetree/lodgetree.h"
#include "index/node/leaf_scan.h"
#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"

namespace lodgekv::lodgetree {

namespace {

// How many leaves ahead are fetched, and how many pairs a leaf usually holds at least.
constexpr unsigned kLeavesAhead = 3;
constexpr unsigned kUsualPairs = 16;

}  // namespace

template <class C>
class LodgeTree<C>::Cursor {
 public:
  static_assert(kLeafSlots + kNodeSlots <= ScanRun::kMost);
  struct Leaf : ScannedLeaf<C, kLeafSlots> {
    Pair buffered[kNodeSlots];
    unsigned buffered_count;
    uint32_t deleted;  // bit i: buffered[i] is a delete
    bool last_of_node;

    unsigned pairs() const { return this->count + buffered_count; }
    template <class F>
    void ForEachValue(F f) const {
      for (unsigned i = 0; i < this->count; ++i) f(this->values[i]);
      for (unsigned i = 0; i < buffered_count; ++i) f(buffered[i].value);
    }
  };

  explicit Cursor(const TreeParts<C>& parts) : parts_(parts) {}

  bool has_place() const { return node_ != nullptr; }
  void Forget() { node_ = nullptr; }
  void Seek(const Key* near, bool reverse, uint64_t wanted);
  bool Copy(bool reverse, uint64_t wanted, Leaf* copy) const;
  void Advance(bool reverse, const Leaf& copy);
  void MergeInto(const Leaf& copy, ScanRun* run) const;

 private:
  unsigned LeafOfBound(const Key* near, bool reverse) const;
  void CopyPairs(pmem::Offset offset, uint32_t slots, uint32_t group, Leaf* copy) const;
  void PrefetchAhead(unsigned distance, bool reverse, uint64_t wanted) const;
  void PrefetchLeaf(unsigned leaf) const;

  const TreeParts<C>& parts_;
  // The next leaf; if there is no node it must be looked up.
  const Node* node_ = nullptr;
  uint64_t snapshot_ = 0;
  unsigned leaf_ = 0;
};

template <class C>
void LodgeTree<C>::Cursor::Seek(const Key* near, bool reverse, uint64_t wanted) {
  do {
    if (near == nullptr) {
      node_ = parts_.tree.DescendLast(&snapshot_);
    } else {
      const auto seek = reverse ? Inner::Seek::kBefore : Inner::Seek::kCovering;
      node_ = parts_.tree.Descend(*near, &snapshot_, seek);
    }
    Prefetch(node_->leaf_count);
    leaf_ = LeafOfBound(near, reverse);
    for (unsigned i = 0; i < kLeavesAhead; ++i) PrefetchAhead(i, reverse, wanted);
  } while (!node_->lock.Validate(snapshot_));
}

// Valid only if the node has not changed since.
template <class C>
unsigned LodgeTree<C>::Cursor::LeafOfBound(const Key* near, bool reverse) const {
  const OptimisticSection section;
  if (near == nullptr) return std::clamp<unsigned>(node_->index_count, 1, kNodeSlots) - 1;
  const unsigned leaf = node_->Search(*near).leaf;
  if (!reverse || leaf == 0) return leaf;
  const Separator low = node_->LowOf(leaf);
  // A pointer that may not be a separator is not followed.
  if (!node_->lock.Validate(snapshot_)) return leaf;
  return C::CompareToKey(low, *near) == 0 ? leaf - 1 : leaf;
}

// False: the node has changed since it was found.
template <class C>
bool LodgeTree<C>::Cursor::Copy(bool reverse, uint64_t wanted, Leaf* copy) const {
  const OptimisticSection section;
  const Node* node = node_;
  const pmem::Offset offset = node->values[leaf_];
  const uint32_t slots = node->mirrors[leaf_].slots();
  const uint32_t group = node->GroupMask(leaf_);
  const bool at_end = leaf_ + 1 == node->index_count;
  copy->low = node->LowOf(leaf_);
  copy->high = at_end ? node->high : node->LowOf(leaf_ + 1);
  copy->prefix = node->bounded ? node->prefix : 0;
  copy->bounded = !at_end || node->bounded;
  copy->last_of_node = reverse ? leaf_ == 0 : at_end;
  // An address that may not be a leaf's is not followed.
  if (!node->lock.Validate(snapshot_)) return false;
  PrefetchAhead(kLeavesAhead, reverse, wanted);
  CopyPairs(offset, slots, group, copy);
  return node->lock.Validate(snapshot_);
}

template <class C>
void LodgeTree<C>::Cursor::CopyPairs(pmem::Offset offset, uint32_t slots, uint32_t group,
                                     Leaf* copy) const {
  const auto* leaf = parts_.pool.template At<media::Leaf>(offset);
  unsigned count = 0;
  for (; slots != 0; slots &= slots - 1) {
    const Pair pair = SlotPair(leaf, static_cast<unsigned>(std::countr_zero(slots)));
    copy->words[count] = pair.key;
    copy->values[count++] = pair.value;
  }
  copy->count = count;
  count = copy->deleted = 0;
  for (; group != 0; group &= group - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(group));
    copy->deleted |= uint32_t{node_->IsTombstone(i)} << count;
    copy->buffered[count++] = node_->BufferedPair(i);
  }
  copy->buffered_count = count;
}

template <class C>
void LodgeTree<C>::Cursor::Advance(bool reverse, const Leaf& copy) {
  if (copy.last_of_node) {
    node_ = nullptr;
  } else {
    leaf_ += reverse ? -1u : 1u;
  }
}

// The leaf at `distance` from here, if so many items are wanted. Before the node is validated it
// may not be a leaf, which does no harm.
template <class C>
void LodgeTree<C>::Cursor::PrefetchAhead(unsigned distance, bool reverse, uint64_t wanted) const {
  const OptimisticSection section;
  const unsigned leaf = reverse ? leaf_ - distance : leaf_ + distance;
  if (leaf < node_->index_count && wanted > distance * kUsualPairs) PrefetchLeaf(leaf);
}

// Prefetches what will be read of a leaf, on the medium and in the node.
template <class C>
void LodgeTree<C>::Cursor::PrefetchLeaf(unsigned leaf) const {
  const uintptr_t media = parts_.access.LeafAddress(node_, leaf);
  for (unsigned line = LineOfSlot(0); line < kLeafLines; ++line) {
    Prefetch(reinterpret_cast<const void*>(media + line * pmem::kLineBytes));
  }
  Prefetch(&node_->mirrors[leaf].bits);
  if constexpr (C::kRecords) {
    Prefetch(node_->separators.low + leaf + 1);
  }
}

// A buffered pair replaces the leaf's pair with the same key. That one is not found by the order: a
// damaged key may be anywhere in it, and is not the place of what replaces it.
template <class C>
void LodgeTree<C>::Cursor::MergeInto(const Leaf& copy, ScanRun* run) const {
  const auto less = [this](Pair a, Pair b) { return parts_.codec.Less(a, b); };
  for (unsigned i = 0; i < copy.buffered_count; ++i) {
    const Pair pair = copy.buffered[i];
    const bool deleted = (copy.deleted >> i & 1) != 0;
    const auto same = std::find_if(run->begin(), run->end(),
                                   [&](Pair a) { return parts_.codec.SameKey(a, pair); });
    if (same != run->end()) {
      if (!deleted && !less(*same, pair) && !less(pair, *same)) {
        *same = pair;
        continue;
      }
      run->Erase(same, same + 1);
    }
    if (!deleted) run->Insert(std::lower_bound(run->begin(), run->end(), pair, less), pair);
  }
}

template <class C>
Outcome LodgeTree<C>::Scan(const ScanOptions& options, ScanVisitor visitor) {
  return LeafScan<C, Cursor>(parts_.pool, parts_.codec, parts_.values, Cursor(parts_), options)
      .Run(visitor);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
