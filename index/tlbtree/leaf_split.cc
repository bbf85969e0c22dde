// The log-free leaf split (TLBtree III (4)); its crash table: README.md, Split.
#include "index/pmem/crash_point.h"
#include "index/tlbtree/leaf_splitter.h"
#include "index/tlbtree/split_entry.h"

namespace lodgekv::tlbtree {

template <class C>
void LeafSplitter<C>::Commit(const LockedLeaf<C>& locked, const Left& left, const Division& made,
                             const LinkTo& sibling) {
  pmem::Medium& medium = tree_.medium;
  media::Node<C>* leaf = locked.leaf;
  const bool late = medium.Canary("tlbtree.split.sibling_after_commit");
  NodeState state = left.state;
  state.Truncate(made.stay);
  state.FlipAlt();
  if (!late) StoreLink(medium, leaf->sibling[state.alt()], sibling);
  if (!medium.Canary("tlbtree.split.sibling_not_flushed")) medium.FlushLine(leaf->sibling);
  LODGEKV_CRASH_POINT(medium, "tlbtree.split.1");
  medium.OrderStores();
  tree_.locks.leaves().BeginCommit(*locked.lock, leaf->state);
  if (medium.Canary("tlbtree.split.two_stores")) {
    NodeState half = left.state;
    half.Truncate(made.stay);
    medium.Store(leaf->state, half.word());
  }
  medium.StoreOrdered(leaf->state, state.word());
  if (late) StoreLink(medium, leaf->sibling[state.alt()], sibling);
  medium.FlushLine(leaf);
  LODGEKV_CRASH_POINT(medium, "tlbtree.split.2");
  medium.Fence();
  tree_.locks.leaves().EndCommit(*locked.lock);
  LODGEKV_CRASH_POINT(medium, "tlbtree.split.3");
}

template <class C>
Outcome LeafSplitter<C>::Split(Worker& worker, const LockedLeaf<C>& locked, const Key& key,
                               Pair pair) {
  const media::Node<C>* leaf = locked.leaf;
  const NodeState state(leaf->state.LoadRelaxed());
  const Left left{leaf, state, locked.low, LoadLink(leaf->sibling[state.alt()])};
  Division made;
  const Outcome outcome = divider_.Divide(worker, left, key, locked.place, &made);
  if (outcome != Outcome::kOk) return outcome;
  const bool flush = !tree_.medium.Canary("tlbtree.split.leaf_not_flushed");
  divider_.StoreRight(left, made, made.goes_right ? &pair : nullptr, locked.place, flush);
  const LinkTo link = MakeLink(tree_.pool.OffsetOf(made.right), made.low);
  SplitEntry<C> entry(tree_);
  const bool listed = entry.Stage(key, leaf, link);
  Commit(locked, left, made, link);
  worker.counters.Add(WorkerCounters::kLeafSplits);
  if (listed) {
    entry.Commit();
  } else {
    worker.unlisted.push_back(OwnTextOfLow<C>(tree_.pool, made.low));
  }
  if (!made.goes_right) {
    (void)writer_.InsertAnywhere(worker, locked, pair);
  } else {
    const NodeState right(made.right->state.LoadRelaxed());
    const unsigned slot = right.SlotAt(locked.place - made.stay);
    LeafWriter<C>::CountInsert(worker, LineOfSlot<C>(slot) == 0);
  }
  return Outcome::kOk;
}

template class LeafSplitter<Fixed64Codec>;
template class LeafSplitter<BytesCodec>;

}  // namespace lodgekv::tlbtree
