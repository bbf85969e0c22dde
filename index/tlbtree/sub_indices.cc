// Entries above leaves: which are missing; entry_round.h makes them.
#include "index/tlbtree/sub_indices.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::tlbtree {

template <class C>
auto SubIndices<C>::TryLock(const Target<C>& target, AnchorPlace* place) const -> Locking {
  {
    const EpochGuard guard;
    if (!descent_.ToAnchor(target, place)) return Locking::kDamaged;
  }
  const bool locked = LockOf(place->offset).TryUpgrade(place->snapshot);
  return locked ? Locking::kLocked : Locking::kBusy;
}

template <class C>
bool SubIndices<C>::Lock(const Target<C>& target, AnchorPlace* place) const {
  for (Backoff backoff;; backoff.Pause()) {
    const Locking locking = TryLock(target, place);
    if (locking != Locking::kBusy) return locking == Locking::kLocked;
  }
}

// As readers see it. False: the leaf is damaged.
template <class C>
bool SubIndices<C>::SiblingOf(const Node* leaf, LinkTo* sibling) const {
  const VersionLock& lock = tree_.locks.Of(leaf);
  for (;;) {
    const uint64_t snapshot = lock.ReadBegin();
    if (tree_.touch.active() && !check_.TouchLeaf(leaf)) {
      if (lock.Validate(snapshot)) return false;
      continue;
    }
    const OptimisticSection section;
    *sibling = tree_.locks.ViewOf(leaf).sibling();
    if (lock.Validate(snapshot)) return true;
  }
}

// Leaves stay while the anchor is locked.
template <class C>
auto SubIndices<C>::FindMissing(const AnchorPlace& place, const Target<C>& target, size_t most,
                                Node** left) const -> Links {
  const EpochGuard guard;
  Links missing;
  Node* leaf = tree_.NodeAt(place.view.root.node);
  if (place.view.root.height > 1) {
    if (tree_.touch.active() && !check_.TouchRoot(leaf)) return missing;
    leaf = tree_.NodeAt(
        tree_.search.template ChildFor<SearchByPointer>(leaf, place.view.low, target).node());
  }
  *left = leaf;
  for (LinkTo link; missing.size() < most && SiblingOf(leaf, &link);) {
    if (link.node() == 0 || !target.Reaches(tree_.pool, link.low)) break;
    missing.push_back(link);
    leaf = tree_.NodeAt(link.node());
  }
  return missing;
}

template <class C>
void SubIndices<C>::List(std::vector<std::string> texts) {
  // The last of several neighbours finds all those to its left.
  std::sort(texts.begin(), texts.end(), std::greater<>());
  while (!texts.empty()) texts = ListInRound(std::move(texts));
}

// Returns the keys to look at once more.
template <class C>
std::vector<std::string> SubIndices<C>::ListInRound(std::vector<std::string> texts) {
  EntryRound<C> round(tree_);
  std::vector<std::string> later;
  for (std::string& text : texts) {
    if (round.full() || StageMissing(text, &round) == Locking::kBusy) {
      later.push_back(std::move(text));
    }
  }
  if (!round.empty()) round.Commit();
  return later;
}

// kBusy: another sub-index is locked, and this one cannot be without waiting, or more may be
// missing than one change makes.
template <class C>
auto SubIndices<C>::StageMissing(const std::string& text, EntryRound<C>* round) -> Locking {
  const typename C::Key key = C::MakeKey(text);
  const Target<C> target{&key};
  AnchorPlace place;
  Locking locking = TryLock(target, &place);
  if (locking == Locking::kBusy && round->empty()) {
    locking = Lock(target, &place) ? Locking::kLocked : Locking::kDamaged;
  }
  if (locking != Locking::kLocked) return locking;
  Node* left;
  const size_t most = round->MostOf(place);
  const Links missing = FindMissing(place, target, most, &left);
  if (missing.empty() || !round->Stage(place, target, missing)) {
    Unlock(place);
    return Locking::kLocked;
  }
  tree_.workers.Current().counters.Add(WorkerCounters::kHelped, missing.size());
  return missing.size() < most ? Locking::kLocked : Locking::kBusy;
}

template <class C>
void SubIndices<C>::RemoveEntry(const AnchorPlace& place, unsigned at) {
  pmem::Medium& medium = tree_.medium;
  Node* root = tree_.NodeAt(place.view.root.node);
  NodeState state(root->state.LoadRelaxed());
  state.Remove(at);
  medium.Store(root->state, state.word());
  medium.FlushLine(&root->state);
  LODGEKV_CRASH_POINT(medium, "tlbtree.entry.3");
  // Readers may have seen that it is gone before: it is a hint. From here on nobody goes by what
  // they saw before.
  VersionLock& lock = LockOf(place.offset);
  lock.BeginPublish();
  lock.EndPublish();
}

template class SubIndices<Fixed64Codec>;
template class SubIndices<BytesCodec>;

}  // namespace lodgekv::tlbtree
