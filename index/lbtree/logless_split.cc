// The logless leaf split (LB+-Tree 3.3, Alg. 3; with distributed headers 3.4); its crash table:
// README.md, Split. The pair is inserted after it by a separate commit (README.md, Deviations, 1).
#include "index/lbtree/leaf_lines.h"
#include "index/lbtree/leaf_splitter.h"
#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

// Alg. 3 line 23: the pair goes to the slot of a moved entry, which is still valid.
template <class C>
void LeafSplitter<C>::StageAsInThePaper(SplitWork<C>* work, Pair pair) {
  for (unsigned i = work->stay; i < work->count && !work->goes_right && !work->inserted; ++i) {
    const auto& entry = work->entries[i];
    if (entry.block != 0) continue;
    writer_.StoreSlot(work->left[0], entry.slot, pair);
    tree_.medium.FlushLine(&work->left[0].slots[entry.slot]);
    work->left_headers[0].Set(entry.slot, FingerprintOf(tree_.codec.HashOf(pair)));
    tree_.medium.Store(work->left[0].header[1], work->left_headers[0].words[1]);
    work->inserted = true;
  }
}

template <class C>
void LeafSplitter<C>::CommitSplit(const LockedLeaf& locked, const Key& key,
                                  const SplitWork<C>& work, Parent* parent) {
  LODGEKV_CRASH_POINT(tree_.medium, "lbtree.split.1");
  tree_.medium.OrderStores();
  tree_.locks.BeginCommit(*locked.lock, work.left[0].header[0]);
  const uint64_t commit = work.left_headers[0].words[0];
  if (tree_.medium.Canary("lbtree.split.two_words")) {
    tree_.medium.Store(work.left[0].header[0], commit ^ media::kAlt);  // then alt alone
  }
  tree_.medium.StoreOrdered(work.left[0].header[0], commit);
  tree_.medium.FlushLine(work.left);
  if (tree_.medium.Canary("lbtree.split.sibling_after_commit")) {
    tree_.medium.Store(work.left[0].tail[work.alt ? 0 : 1], CheckedWord(work.right));
    tree_.medium.FlushLine(work.left[0].tail);
  }
  LODGEKV_CRASH_POINT(tree_.medium, "lbtree.split.2");
  tree_.medium.Fence();
  if (parent == nullptr) parent = tree_.inner.LockParent(key);
  tree_.locks.BeginPublish(*locked.lock);
  const typename TreeState<C>::Inner::Child child{work.separator, tree_.LeafAt(work.right)};
  tree_.inner.InsertAndUnlock(parent, key, {&child, 1});
  tree_.locks.EndPublish(*locked.lock);
  LODGEKV_CRASH_POINT(tree_.medium, "lbtree.split.3");
}

// Splits the locked leaf and inserts the pair.
template <class C>
Outcome LeafSplitter<C>::Split(Worker& worker, const LockedLeaf& locked, const Key& key,
                               Pair pair) {
  SplitWork<C> work;
  work.left = locked.leaf;
  work.alt = AltOf(locked.leaf);
  work.right = tree_.space.Take(worker.spare_leaves);
  if (work.right == 0) return Outcome::kPoolFull;
  divider_.LoadHeaders(&work);
  bool divided;
  {
    const EpochGuard guard;
    divided = divider_.Divide(key, divider_.BoundsOf(key), &work);
  }
  if (!divided) {
    tree_.leaves.Free(work.right);
    return Outcome::kDataLoss;
  }
  auto* parent = LockParentBeforeStores(tree_.inner, tree_.medium, key);
  if (work.goes_right) work.moved[work.moved_count++] = pair;
  if (!tree_.parameters.logless_split) divider_.PersistLeafAside(work);
  divider_.StoreRightLeaf(work);
  const media::Block* right = tree_.LeafAt(work.right);
  if (!tree_.medium.Canary("lbtree.split.leaf_not_flushed"))
    tree_.medium.FlushLines(right, LinesInUse(right, tree_.blocks));
  tree_.medium.FlushLines(work.left, divider_.StoreLeftLeaf(&work));
  if (tree_.medium.Canary("lbtree.split.reuse_at_once")) StageAsInThePaper(&work, pair);
  CommitSplit(locked, key, work, parent);
  worker.counters.Add(WorkerCounters::kLeafSplits);
  if (!work.goes_right && !work.inserted) {
    (void)writer_.Insert(worker, locked, {pair, FingerprintOf(key.hash)});
  }
  return Outcome::kOk;
}

template class LeafSplitter<Fixed64Codec>;
template class LeafSplitter<BytesCodec>;

}  // namespace lodgekv::lbtree
