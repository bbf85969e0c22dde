// Empty leaves; their crash table: README.md, Drop.
#include "index/sstree/leaf_dropper.h"

#include <bit>
#include <string>
#include <utility>

#include "index/node/inner_tree_shrink.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::sstree {

template <class C>
bool LeafDropper<C>::DropWithLast(Worker& worker, Leaf* leaf, const Key& key) {
  if (!tree_.parameters.drop_leaves || leaf->place.subnodes() != 1 ||
      std::popcount(leaf->place.slots()) != 1) {
    return false;
  }
  DropHead(worker, leaf);
  Remove(worker, leaf, key);
  return true;
}

template <class C>
void LeafDropper<C>::DropHead(Worker& worker, Leaf* leaf) {
  media::Subnode* head = tree_.HeadOf(*leaf);
  tree_.medium.Store(head->next, media::kFree);
  tree_.medium.FlushLine(head);
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.drop.1");
  tree_.FenceAndFree(worker);
  const pmem::Offset gone = leaf->place.head();
  LeafCommits<Leaf>::BeginPublish(*leaf);
  leaf->place = {};
  leaf->filter = 0;
  tree_.commits.EndPublish(*leaf);
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.drop.2");
  const bool stays = tree_.medium.failed() || tree_.medium.Canary("sstree.drop.head_stays");
  if (!stays) tree_.subnodes.Free(gone);
  worker.counters.Add(WorkerCounters::kDroppedLeaves);
}

// A leaf without a head.
template <class C>
void LeafDropper<C>::Remove(Worker& worker, Leaf* leaf, const Key& key) {
  typename Inner::Node* parent;
  const Attempt attempt = tree_.inner.LockForRemoval(key, leaf, Inner::Heir::kEither, &parent);
  if (attempt == Attempt::kDone) {
    leaf->lock.BeginPublish();
    tree_.inner.RemoveAndUnlock(parent, key);
    leaf->lock.EndPublish();
    worker.removed.push_back(leaf);
  }
  if (attempt == Attempt::kBusy || !tree_.inner.Shrink(key)) Note(worker, key);
}

// Only a few: beyond that, empty leaves stay until something is put there.
template <class C>
void LeafDropper<C>::Note(Worker& worker, const Key& key) const {
  constexpr size_t kMost = 64;
  if (worker.emptied.size() < kMost) worker.emptied.push_back(C::TextOf(key));
}

template <class C>
void LeafDropper<C>::DropEmptied(Worker& worker) {
  for (Leaf* leaf : std::exchange(worker.removed, {})) tree_.leaves.Free(leaf);
  std::vector<std::string> noted;
  noted.swap(worker.emptied);
  for (const std::string& text : noted) {
    const Key key = C::MakeKey(text);
    if (!DropIfEmpty(worker, key) || !tree_.inner.Shrink(key)) Note(worker, key);
  }
  for (Leaf* leaf : std::exchange(worker.removed, {})) tree_.leaves.Free(leaf);
}

// False: the leaf was busy.
template <class C>
bool LeafDropper<C>::DropIfEmpty(Worker& worker, const Key& key) {
  uint64_t snapshot;
  Leaf* leaf = tree_.inner.DescendForWrite(key, &snapshot);
  if (!leaf->lock.TryUpgrade(snapshot)) return false;
  tree_.Touch(key);
  const bool has_head = leaf->place.subnodes() > 0;
  const bool empty =
      !has_head || (tree_.HeadOf(*leaf)->word.LoadRelaxed() & media::kValidMask) == 0;
  if (empty && tree_.parameters.drop_leaves) {
    while (leaf->place.subnodes() > 1) ReclaimOverflow(worker, leaf);
    if (has_head) DropHead(worker, leaf);
    Remove(worker, leaf, key);
  }
  leaf->lock.Unlock();
  return true;
}

// The last subnode of an empty leaf.
template <class C>
void LeafDropper<C>::ReclaimOverflow(Worker& worker, Leaf* leaf) {
  LeafChange change;
  writer_.Begin(leaf, &change);
  writer_.Stage(&change);
  tree_.medium.OrderStores();
  writer_.Commit(&change);
  tree_.FenceAndFree(worker);
  writer_.Publish(worker, &change);
}

template class LeafDropper<Fixed64Codec>;
template class LeafDropper<BytesCodec>;

}  // namespace lodgekv::sstree
