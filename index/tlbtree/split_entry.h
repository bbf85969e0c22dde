// The entry above a leaf that a split makes, prepared before the split commits, so that the split's
// first fence makes the link durable. When the split is durable the root's state word is stored;
// that is flushed, and the fence is one of a later write: an entry is a hint, and one that a crash
// takes is made by whoever notices. The protocol is part of Split's crash table in README.md.
//
// Where the root is full, or there is none, or it is being changed, the entry is made without the
// leaf's lock (sub_indices.h).
//
// Used by one thread, which holds the leaf's lock: the anchor's lock is only tried.
#pragma once

#include "index/tlbtree/descent.h"

namespace lodgekv::tlbtree {

template <class C>
class SplitEntry {
 public:
  using Node = media::Node<C>;
  using Key = typename C::Key;

  explicit SplitEntry(TreeState<C>& tree) : tree_(tree), descent_(tree) {}

  // `right` leads to the leaf that comes behind `leaf`, which covers the key. False: the entry is
  // not for a split to make; nothing has changed. True: Commit has to follow.
  bool Stage(const Key& key, const Node* leaf, const LinkTo& right);
  // The split is durable.
  void Commit();

 private:
  enum class Staging : uint8_t { kDone, kNotHere, kNot };
  // In the root of the sub-index that the top layer knows of, or of the one that covers the key.
  Staging StageIn(const Key& key, bool near, const Node* leaf, const LinkTo& right);
  bool LockAnchor(const Key& key, bool near);
  Staging StageInRoot(const Key& key, const Node* leaf, const LinkTo& right);
  void StoreState();

  TreeState<C>& tree_;
  const Descent<C> descent_;
  VersionLock* lock_ = nullptr;  // of the anchor, held
  Node* root_ = nullptr;
  NodeState state_;  // of the root, with the entry
};

}  // namespace lodgekv::tlbtree
