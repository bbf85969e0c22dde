// Entries above leaves; crash tables: README.md, Entry, Second level and Sub-index split.
#include "index/tlbtree/entry_round.h"

#include <algorithm>

#include "index/pmem/crash_point.h"
#include "index/tlbtree/root_entry.h"

namespace lodgekv::tlbtree {

template <class C>
size_t EntryRound<C>::MostOf(const AnchorPlace& place) const {
  const unsigned slots = tree_.parameters.node_slots;
  if (place.view.root.height == 1) return tree_.parameters.height == 1 ? 1 : slots;
  const NodeState state(tree_.NodeAt(place.view.root.node)->state.LoadRelaxed());
  return state.count() < slots ? slots - state.count() : slots + 1;
}

template <class C>
bool EntryRound<C>::Stage(const AnchorPlace& place, const Target<C>& target,
                          std::span<const LinkTo> leaves) {
  if (place.view.root.height == 1) return StageGrowth(place, leaves);
  const Node* root = tree_.NodeAt(place.view.root.node);
  const NodeState state(root->state.LoadRelaxed());
  unsigned at;
  {
    const TextGuard<C> guard;
    at = tree_.search.template ChildPlace<SearchByPointer>(root, state, target);
  }
  if (state.count() >= tree_.parameters.node_slots) return StageSplit(place, at, leaves);
  StageEntries(place, at, leaves);
  return true;
}

template <class C>
void EntryRound<C>::StageEntries(const AnchorPlace& place, unsigned at,
                                 std::span<const LinkTo> leaves) {
  Change& change = changes_.emplace_back();
  change.place = place;
  change.root = tree_.NodeAt(place.view.root.node);
  change.state = NodeState(change.root->state.LoadRelaxed());
  for (const LinkTo& link : leaves) {
    fences_first_ |= StageEntry(tree_, change.root, link, at++, &change.state);
  }
}

// The one leaf of a sub-index gets neighbours, and all of them a root, or an anchor each.
template <class C>
bool EntryRound<C>::StageGrowth(const AnchorPlace& place, std::span<const LinkTo> leaves) {
  Children children;
  children.Add({place.view.low, place.view.root.node});
  for (const LinkTo& link : leaves) children.Add(link);
  if (tree_.parameters.height == 1) return Divide(place, children, 1, /*rebuilt=*/false);
  const pmem::Offset root = MakeRoot(tree_, children.all());
  if (root == 0) return false;
  Change& change = changes_.emplace_back();
  change.place = place;
  change.anchor.root = place.view.root;
  change.anchor.root.node = root;
  change.anchor.root.height = 2;
  fences_first_ = true;
  return true;
}

// Behind a full root, one of whose halves the leaves belong to. A sub-index that gets leaves to the
// right of all its own keeps those: so keys that ascend leave full sub-indices.
template <class C>
bool EntryRound<C>::StageSplit(const AnchorPlace& place, unsigned at,
                               std::span<const LinkTo> leaves) {
  const Node* root = tree_.NodeAt(place.view.root.node);
  const NodeState state(root->state.LoadRelaxed());
  Children children;
  children.Add({place.view.low, root->leftmost.LoadRelaxed()});
  for (unsigned i = 0; i <= state.count(); ++i) {
    if (i == at) {
      for (const LinkTo& link : leaves) children.Add(link);
    }
    if (i < state.count()) children.Add(LoadLink(root->children[state.SlotAt(i)]));
  }
  const bool behind = at == state.count();
  return Divide(place, children, behind ? state.count() + 1 : children.count / 2, !behind);
}

// The first `stay` leaves stay: behind the old root, or behind another one.
template <class C>
bool EntryRound<C>::Divide(const AnchorPlace& place, const Children& children, size_t stay,
                           bool rebuilt) {
  const AnchorRoot old = place.view.root;
  const auto all = children.all();
  const auto right = all.subspan(stay);
  const bool has_root = right.size() > 1;
  const pmem::Offset left_root = rebuilt ? MakeRoot(tree_, all.first(stay)) : old.node;
  const pmem::Offset right_root = left_root == 0 ? 0
                                  : has_root     ? MakeRoot(tree_, right)
                                                 : right[0].node();
  const pmem::Offset anchor =
      right_root == 0 ? 0 : NewAnchor(place, right[0], right_root, has_root ? 2 : 1);
  if (anchor == 0) {
    if (rebuilt && left_root != 0) tree_.nodes.Free(left_root);
    if (has_root && right_root != 0) tree_.nodes.Free(right_root);
    return false;
  }
  Change& change = changes_.emplace_back();
  change.place = place;
  change.anchor = {old, anchor};
  change.anchor.root.node = left_root;
  if (rebuilt) {
    tree_.HoldUnit(tree_.nodes, old.node);
    change.replaced = old.node;
  }
  fences_first_ = true;
  return true;
}

// Flushed, not fenced. 0: the pool is full.
template <class C>
pmem::Offset EntryRound<C>::NewAnchor(const AnchorPlace& left, const LinkTo& first,
                                      pmem::Offset root, unsigned height) {
  const pmem::Offset offset = tree_.NewUnit(tree_.anchors, pmem::ReservePolicy::kKeep);
  if (offset == 0) return 0;
  std::string text;
  {
    const TextGuard<C> guard;
    text = OwnTextOfLow<C>(tree_.pool, first.low);
  }
  Low low;
  if (!MakeLow(tree_, text, pmem::ReservePolicy::kKeep, &low)) {
    tree_.anchors.Free(offset);
    return 0;
  }
  StoreAnchor(tree_, offset, {.node = root, .height = height}, left.view.next, low);
  if (!tree_.medium.Canary("tlbtree.sub_index.anchor_not_flushed")) {
    tree_.medium.FlushLine(tree_.AnchorAt(offset));
  }
  return offset;
}

template <class C>
void EntryRound<C>::Commit() {
  pmem::Medium& medium = tree_.medium;
  for (Change& change : changes_) {
    if (change.root == nullptr) anchors_.Stage(change.place, &change.anchor);
  }
  if (Has(Kind::kEntries)) LODGEKV_CRASH_POINT(medium, "tlbtree.entry.1");
  if (Has(Kind::kGrowth)) LODGEKV_CRASH_POINT(medium, "tlbtree.grow.1");
  if (Has(Kind::kSplit)) LODGEKV_CRASH_POINT(medium, "tlbtree.sub_index_split.1");
  if (fences_first_) medium.OrderStores();
  StoreCommits();
  if (Has(Kind::kEntries)) LODGEKV_CRASH_POINT(medium, "tlbtree.entry.2");
  if (Has(Kind::kGrowth)) LODGEKV_CRASH_POINT(medium, "tlbtree.grow.2");
  if (Has(Kind::kSplit)) LODGEKV_CRASH_POINT(medium, "tlbtree.sub_index_split.2");
  // Entries alone are hints: a crash may take them. On a file the words are stored by the fence.
  if (Has(Kind::kGrowth) || Has(Kind::kSplit) || medium.long_fences()) medium.Fence();
  for (Change& change : changes_) {
    Publish(change);
    tree_.locks.Of(tree_.AnchorAt(change.place.offset)).Unlock();
  }
}

template <class C>
bool EntryRound<C>::Has(Kind kind) const {
  return std::ranges::any_of(changes_, [&](const Change& change) { return change.kind() == kind; });
}

template <class C>
void EntryRound<C>::StoreCommits() {
  for (const Change& change : changes_) {
    if (change.root == nullptr) {
      anchors_.Store(change.place, change.anchor);
      continue;
    }
    tree_.medium.StoreOrdered(change.root->state, change.state.word());
    tree_.medium.FlushLine(&change.root->state);
  }
}

// Readers may have seen an entry before: it is a hint. From here on nobody goes by what they saw
// before.
template <class C>
void EntryRound<C>::Publish(Change& change) {
  if (change.root != nullptr) {
    VersionLock& lock = tree_.locks.Of(tree_.AnchorAt(change.place.offset));
    lock.BeginPublish();
    lock.EndPublish();
    return;
  }
  anchors_.Publish(&change.place);
  if (change.kind() == Kind::kGrowth) return;
  LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.sub_index_split.3");
  tree_.top.Add(*change.anchor.next);
  if (change.replaced != 0 && !tree_.medium.failed() &&
      !tree_.medium.Canary("tlbtree.sub_index.root_stays")) {
    tree_.nodes.Free(change.replaced);
  }
  tree_.workers.Current().counters.Add(WorkerCounters::kSubIndexSplits);
}

template class EntryRound<Fixed64Codec>;
template class EntryRound<BytesCodec>;

}  // namespace lodgekv::tlbtree
