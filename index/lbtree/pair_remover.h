// Removes pairs (LB+-Tree 3.1): one store of a header's word 0 clears the pair's bit. The last pair
// of a leaf is removed together with the leaf, by one store of the left neighbour's sibling word.
// The protocols are the two crash tables of Delete in README.md.
//
// The range of a removed leaf goes to its left neighbour, or, if it was the first child of its
// inner node, to its right one: leaves have no fence keys. A leaf that was emptied while a
// neighbour or its parents were busy is unlinked later, while empty, by the thread that emptied it.
//
// INVARIANT: the leftmost leaf is never unlinked, even if empty.
//
// Thread-safe for different leaves; Remove is for the holder of the leaf's lock, UnlinkEmptied for
// a thread without locks. Other locks are only tried.
#pragma once

#include "index/lbtree/leaf_lines.h"
#include "index/lbtree/tree_state.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

template <class C>
class PairRemover {
 public:
  using Key = typename C::Key;
  using Inner = typename TreeState<C>::Inner;
  using Attempt = typename Inner::Attempt;

  explicit PairRemover(TreeState<C>& tree) : tree_(tree) {}

  // The key must be there. Durable on return.
  void Remove(Worker& worker, const LockedLeaf& locked, const Key& key);
  // Unlinks the leaves that the thread has noted.
  void UnlinkEmptied(Worker& worker);

 private:
  media::Block* LeftNeighbour(const Key& key, uint64_t* snapshot) const;
  // Seldom: not part of a delete's path.
  [[gnu::noinline]] Attempt UnlinkLeaf(Worker& worker, const LockedLeaf& locked, const Key& key);
  [[gnu::noinline]] void NoteEmptied(Worker& worker, const Key& key);
  bool UnlinkIfEmpty(Worker& worker, const Key& key);

  TreeState<C>& tree_;
};

// The key's place has been found. The block of a leaf that has one is a constant: were it loaded
// from the place, the header's address would wait for the leaf's line, and the next operation's
// misses behind the store (docs/decisions/0046-addresses-before-misses.md).
template <class C>
void PairRemover<C>::Remove(Worker& worker, const LockedLeaf& locked, const Key& key) {
  worker.counters.Add(WorkerCounters::kDeletes);
  unsigned block = 0;
  if (tree_.blocks != 1) [[unlikely]]
    block = locked.place.block;
  media::Word* words = HeaderWords(locked.leaf, block, AltOfBlock(locked.leaf, block));
  Header header = LoadHeader(words);
  const bool last =
      tree_.parameters.unlink_leaves && HoldsOnePair(locked.leaf, tree_.blocks, block, header);
  const uint64_t old_value = locked.FoundPair().value;
  const Attempt unlinked = last ? UnlinkLeaf(worker, locked, key) : Attempt::kCannot;
  if (unlinked == Attempt::kBusy) NoteEmptied(worker, key);
  if (unlinked != Attempt::kDone) {
    header.Clear(uint32_t{1} << locked.place.slot);
    pmem::Medium& medium = tree_.medium;
    tree_.locks.BeginCommit(*locked.lock, words[0]);
    medium.PersistWord(words[0], header.words[0],
                       [&] { LODGEKV_CRASH_POINT(medium, "lbtree.delete.1"); });
    tree_.locks.EndCommit(*locked.lock);
    LODGEKV_CRASH_POINT(medium, "lbtree.delete.2");
  }
  tree_.RetireRecord(worker, old_value);
}

}  // namespace lodgekv::lbtree
