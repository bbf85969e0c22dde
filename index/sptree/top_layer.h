// The top layer (SPTree 4.1): finds the Mnode that covers a key. All that the engine knows of its
// kind is here; now it is the B+-tree in DRAM that all engines share.
//
// What it finds is proven to cover the key at the version returned: whoever locks the Mnode as of
// that version has the right one. It holds one entry for each Mnode, under its `low`, and owns a
// reference to that.
//
// Thread-safe. Add and the removal are for the holder of the Mnodes' locks.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "index/node/inner_tree.h"
#include "index/node/inner_tree_shrink.h"
#include "index/sptree/mnode.h"

namespace lodgekv::sptree {

template <class C>
class TopLayer {
 public:
  using Key = typename C::Key;
  using Inner = InnerTree<C, Mnode<C>, MnodeAccess<C>>;
  using Child = typename Inner::Child;
  using Nodes = typename Inner::Nodes;
  using Attempt = typename Inner::Attempt;

  TopLayer(DramArena& dram, SeparatorTexts& texts) : inner_(dram, texts) {}

  // For a new or a recovered tree; not thread-safe, except MakeNodes.
  void Build(std::span<const Child> children) { inner_.Build(children); }
  Nodes MakeNodes(std::span<const Child> children) { return inner_.MakeParents(children); }
  void BuildOver(std::vector<Nodes> pieces, unsigned threads) {
    inner_.BuildOver(std::move(pieces), threads);
  }

  template <class Form = SearchByPointer>
  Mnode<C>* Find(const Key& key, uint64_t* snapshot) const {
    return inner_.template Descend<Form>(key, snapshot);
  }
  template <class Form = SearchByPointer>
  Mnode<C>* FindForWrite(const Key& key, uint64_t* snapshot) const {
    return inner_.template DescendForWrite<Form>(key, snapshot);
  }
  // Of `count` keys, key_at(i); calls found(i, mnode, snapshot) for each.
  template <class Form, class KeyAt, class Found>
  void FindEach(size_t count, KeyAt key_at, Found found) const {
    inner_.template DescendEach<Form>(count, key_at, found);
  }
  // The one that covers the largest key below it.
  Mnode<C>* FindBefore(const Key& key, uint64_t* snapshot) const {
    return inner_.Descend(key, snapshot, Inner::Seek::kBefore);
  }
  Mnode<C>* FindLast(uint64_t* snapshot) const { return inner_.DescendLast(snapshot); }

  // The Mnode takes over the upper part of its left neighbour's range. The caller has given the
  // entry its reference to `low`.
  void Add(Mnode<C>* mnode) {
    const Key key = C::KeyOf(mnode->low);
    auto* parent = inner_.LockParent(key);
    const Child child{mnode->low, mnode};
    inner_.InsertAndUnlock(parent, key, {&child, 1});
  }

  // A removal in two steps, so that it is certain before anything is durable: then the left
  // neighbour covers the range.
  class Removal {
   public:
    Removal() = default;

   private:
    friend class TopLayer;
    typename Inner::Node* parent_ = nullptr;
  };
  // kCannot: its left neighbour is not beside it in the top layer.
  Attempt Begin(const Mnode<C>* mnode, Removal* removal) {
    return inner_.LockForRemoval(C::KeyOf(mnode->low), mnode, Inner::Heir::kLeft,
                                 &removal->parent_);
  }
  void Remove(const Mnode<C>* mnode, const Removal& removal) {
    inner_.RemoveAndUnlock(removal.parent_, C::KeyOf(mnode->low));
  }
  // After a removal, without locks. False: it was busy, and is to be called again.
  bool Shrink(const Key& key) { return inner_.Shrink(key); }

  uint64_t node_count() const { return inner_.node_count(); }

 private:
  Inner inner_;
};

}  // namespace lodgekv::sptree
