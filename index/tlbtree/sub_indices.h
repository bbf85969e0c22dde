// The bottom layer above its leaves: sub-indices that are linked from left to right, each a Wo-tree
// of height one or two behind an anchor (TLBtree III, Fig. 3). An entry above a leaf is a hint: the
// chain of leaves is the truth, and an entry that is missing, after a crash or because the pool was
// full, is made by whoever notices (T6 of the review: helping).
//
// What changes under an anchor's lock, each by one 8-byte store (NAW): the entries of the root, by
// its state word; root, height and right neighbour of the sub-index, by the anchor's root word. The
// protocols are the crash tables Entry, Sub-index split and Sub-index merge in README.md.
//
// Invariants
//  1. An entry leads to a leaf of the chain, whose lower bound it has: it is made after the store
//     that links the leaf is durable, and removed, durably, before the one that unlinks it.
//  2. A sub-index has the entries of its own range only.
//
// Thread-safe. Called without locks, not inside an EpochGuard.
#pragma once

#include <string>
#include <vector>

#include "index/tlbtree/anchor_writer.h"
#include "index/tlbtree/descent.h"
#include "index/tlbtree/entry_round.h"

namespace lodgekv::tlbtree {

template <class C>
class SubIndices {
 public:
  using Node = media::Node<C>;

  explicit SubIndices(TreeState<C>& tree)
      : tree_(tree), descent_(tree), check_(tree), anchors_(tree) {}

  // Makes the entries that are missing on the way to the keys' leaves, unless the pool is full.
  void List(std::vector<std::string> texts);
  // Takes the sub-index that covers the key, if it has one leaf only, into the one to its left.
  // True: it was taken; the key's leaf has no entry yet.
  bool MergeSubIndex(const std::string& text);
  // Unlinks dead anchors to the right of the one that covers the key: a crash may have left them.
  void DropDead(const std::string& text);

  // Locks the anchor that covers the target. False: something is damaged, and nothing is locked.
  bool Lock(const Target<C>& target, AnchorPlace* place) const;
  void Unlock(const AnchorPlace& place) const { LockOf(place.offset).Unlock(); }
  // Under the lock of `place`. The caller fences before the leaf is unlinked.
  void RemoveEntry(const AnchorPlace& place, unsigned at);
  // Under the lock: the leaves on the way to the target that its sub-index does not list, from left
  // to right, at most `most`. None if something is damaged. `left`: the listed leaf to the left of
  // them.
  using Links = absl::InlinedVector<LinkTo, EntryRound<C>::kMostLeaves>;
  Links FindMissing(const AnchorPlace& place, const Target<C>& target, size_t most,
                    Node** left) const;

 private:
  VersionLock& LockOf(pmem::Offset anchor) const { return tree_.locks.Of(tree_.AnchorAt(anchor)); }
  enum class Locking : uint8_t { kLocked, kBusy, kDamaged };
  Locking TryLock(const Target<C>& target, AnchorPlace* place) const;
  bool SiblingOf(const Node* leaf, LinkTo* sibling) const;
  std::vector<std::string> ListInRound(std::vector<std::string> texts);
  Locking StageMissing(const std::string& text, EntryRound<C>* round);
  bool CanAbsorb(const AnchorPlace& left, const AnchorPlace& right) const;
  void Absorb(AnchorPlace* left, AnchorPlace* right);

  TreeState<C>& tree_;
  const Descent<C> descent_;
  const NodeCheck<C> check_;
  AnchorWriter<C> anchors_;
};

}  // namespace lodgekv::tlbtree
