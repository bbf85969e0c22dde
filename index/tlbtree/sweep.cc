#include "index/tlbtree/sweep.h"

#include <algorithm>
#include <utility>

#include "index/node/epoch.h"
#include "index/node/recovery_tasks.h"
#include "index/tlbtree/descent.h"

namespace lodgekv::tlbtree {

namespace {

using pmem::UnitArena;

// Of SettleSome(1): a step holds up the other tasks of the worker for some 50 us.
constexpr unsigned kVisitsOfStep = 64;

}  // namespace

template <class C>
void Sweep<C>::Begin() {
  phase_ = Phase::kAnchors;
  anchor_ = tree_.first_anchor();
  total_ = tree_.nodes.total_units();
  from_ = C::TextOf(C::MinusInfinity());
}

template <class C>
bool Sweep<C>::unfinished() const {
  return tree_.touch.active();
}

template <class C>
void Sweep<C>::End() {
  tree_.touch.End();
}

template <class C>
auto Sweep<C>::progress() const -> Progress {
  return {std::min(leaves_.load(std::memory_order_relaxed), total_), total_};
}

template <class C>
void Sweep<C>::AddTo(RecoveryReport* report) const {
  report->leaves_scanned = leaves_.load(std::memory_order_relaxed);
  report->keys = keys_;
}

template <class C>
bool Sweep<C>::Damaged(std::string_view what, pmem::Offset offset) {
  status_ = tree_.medium.failed() ? absl::UnavailableError("a sync of the medium has failed")
                                  : tree_.pool.contents().EnsureVerified(offset);
  if (status_.ok()) status_ = DamagedPool("tlbtree", what, offset);
  return false;
}

// False: all was visited, or something is damaged.
template <class C>
bool Sweep<C>::SettleSome(size_t count) {
  const size_t visits = tree_.medium.tracer() != nullptr ? count : count * kVisitsOfStep;
  for (size_t i = 0; i < visits; ++i) {
    if (!status_.ok() || !Step()) return false;
  }
  return true;
}

template <class C>
bool Sweep<C>::Step() {
  const EpochGuard guard;
  switch (phase_) {
    case Phase::kAnchors: return StepAnchor();
    case Phase::kLeaves: return StepLeaf();
    case Phase::kTop: return StepTop();
    case Phase::kChunks: return StepChunks();
    case Phase::kDone: break;
  }
  return false;
}

// A dead anchor is left where it is; the one before it is told to skip it.
template <class C>
bool Sweep<C>::StepAnchor() {
  const Descent<C> descent(tree_);
  const NodeCheck<C> check(tree_);
  AnchorPlace place;
  if (!descent.ViewAnchor(anchor_, &place)) return Damaged("a damaged anchor", anchor_);
  if (!tree_.medium.Canary("tlbtree.sweep.anchor_unmarked")) (void)tree_.anchors.Mark(anchor_);
  if (!MarkLow(anchor_, RecordOfLow<C>(place.view.low))) return false;
  if (place.view.root.dead) {
    const std::lock_guard lock(mutex_);
    dead_.push_back(live_low_);
    found_dead_.store(true, std::memory_order_relaxed);
  } else {
    live_low_ = OwnTextOfLow<C>(tree_.pool, place.view.low);
    const auto* root = tree_.NodeAt(place.view.root.node);
    if (place.view.root.height > 1) {
      if (!check.TouchRoot(root)) {
        const bool same = tree_.locks.Of(tree_.AnchorAt(anchor_)).Validate(place.snapshot);
        return same ? Damaged("a damaged root of a sub-index", place.view.root.node) : true;
      }
      if (!tree_.medium.Canary("tlbtree.sweep.root_unmarked")) {
        (void)tree_.nodes.Mark(place.view.root.node);
      }
    }
  }
  anchor_ = place.view.next;
  if (anchor_ == 0) phase_ = Phase::kLeaves;
  return true;
}

template <class C>
bool Sweep<C>::MarkLow(pmem::Offset where, pmem::Offset record) {
  if (tree_.medium.Canary("tlbtree.sweep.bound_unmarked")) return true;
  if (record != 0 && tree_.slab.Mark(record) == UnitArena::MarkResult::kNotAUnit) {
    return Damaged("a bound whose record is none of", where);
  }
  return true;
}

template <class C>
bool Sweep<C>::StepLeaf() {
  const Descent<C> descent(tree_);
  const typename C::Key key = C::MakeKey(from_);
  LeafPlace<C> place;
  descent.ToLeaf(Target<C>{&key}, &place);
  if (place.leaf == nullptr) return Damaged("a damaged leaf, or what leads to it,", place.damaged);
  return VisitLeaf(place);
}

template <class C>
bool Sweep<C>::VisitLeaf(const LeafPlace<C>& place) {
  using Node = media::Node<C>;
  Pair pairs[Node::kSlots];
  unsigned count = 0;
  LinkTo sibling;
  {
    const OptimisticSection section;
    const LeafView<C> view = tree_.locks.ViewOf(place.leaf);
    sibling = view.sibling();
    count = std::min(view.state().count(), Node::kSlots);
    for (unsigned i = 0; i < count; ++i) pairs[i] = view.PairAt(view.state().SlotAt(i));
    if (!tree_.locks.Of(place.leaf).Validate(place.snapshot)) return true;  // once more
  }
  const pmem::Offset leaf = tree_.pool.OffsetOf(place.leaf);
  if (!tree_.medium.Canary("tlbtree.sweep.leaf_unmarked")) (void)tree_.nodes.Mark(leaf);
  if (!MarkLow(leaf, RecordOfLow<C>(sibling.low))) return false;
  for (unsigned i = 0; i < count; ++i) {
    if (!MarkPair(leaf, pairs[i].value)) return false;
  }
  if (count > 0 && pairs[0].key < place.low.word) {
    return Damaged("a key below the bound of the leaf", leaf);
  }
  leaves_.fetch_add(1, std::memory_order_relaxed);
  keys_ += count;
  if (sibling.node() == 0) {
    phase_ = Phase::kTop;
  } else {
    from_ = OwnTextOfLow<C>(tree_.pool, sibling.low);
  }
  return true;
}

template <class C>
bool Sweep<C>::MarkPair(pmem::Offset leaf, uint64_t value_word) {
  if constexpr (C::kRecords) {
    if (tree_.medium.Canary("tlbtree.sweep.record_unmarked")) return true;
    if (C::IsRecord(value_word) &&
        tree_.slab.Mark(C::RecordOf(value_word)) == UnitArena::MarkResult::kNotAUnit) {
      return Damaged("a pair whose record is none in the leaf", leaf);
    }
  }
  return true;
}

// Dead anchors that only the top layer leads to are in use until it is built anew.
template <class C>
bool Sweep<C>::StepTop() {
  tree_.top.ForEach([&](pmem::Offset anchor) {
    if (anchor == 0 || !tree_.anchors.IsUnit(anchor)) return;
    const AnchorView view = AnchorView::Of(*tree_.AnchorAt(anchor));
    if (!view.root.dead) return;
    if (tree_.anchors.Mark(anchor) != UnitArena::MarkResult::kMarked) return;
    (void)MarkLow(anchor, RecordOfLow<C>(view.low));
    tree_.top.Drop(anchor);
  });
  phase_ = Phase::kChunks;
  return status_.ok();
}

// What nobody has touched, of a pool that was closed cleanly.
template <class C>
bool Sweep<C>::StepChunks() {
  if (VerifySome(tree_.pool.contents(), &status_)) return true;
  phase_ = Phase::kDone;
  return false;
}

template <class C>
std::vector<std::string> Sweep<C>::TakeDead() {
  if (!found_dead()) return {};
  const std::lock_guard lock(mutex_);
  found_dead_.store(false, std::memory_order_relaxed);
  return std::exchange(dead_, {});
}

template class Sweep<Fixed64Codec>;
template class Sweep<BytesCodec>;

}  // namespace lodgekv::tlbtree
