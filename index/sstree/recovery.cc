#include "index/sstree/recovery.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "index/pmem/crash_point.h"
#include "index/sstree/leaf_walk.h"
#include "index/sstree/sstree.h"
#include "index/sstree/writes.h"

namespace lodgekv::sstree {

namespace {
constexpr size_t kLeavesPerTask = 4096;
}  // namespace

// --- the order of the leaves ---

template <class C>
void Recovery<C>::SortLeaves() {
  for (Part& part : parts_) {
    leaves_.insert(leaves_.end(), part.leaves.begin(), part.leaves.end());
    part.leaves = {};
    report_.keys += part.keys;
  }
  const auto less = [this](const FoundLeaf& a, const FoundLeaf& b) {
    return tree_.codec.Less(a.least, b.least);
  };
  const size_t pieces = PartsOf(leaves_.size(), kLeavesPerTask, report_.threads);
  const auto at = [&](size_t i) {
    return leaves_.begin() +
           static_cast<ptrdiff_t>(lodgekv::Part::Of(leaves_.size(), pieces, i).begin);
  };
  (void)Parallel(pieces, [&](size_t i) {
    std::sort(at(i), i + 1 == pieces ? leaves_.end() : at(i + 1), less);
    return absl::OkStatus();
  });
  for (size_t i = 1; i < pieces; ++i) {
    std::inplace_merge(leaves_.begin(), at(i), i + 1 == pieces ? leaves_.end() : at(i + 1), less);
  }
}

template <class C>
absl::Status Recovery<C>::FindOverlaps() {
  for (size_t i = 0; i + 1 < leaves_.size(); ++i) {
    if (tree_.codec.Less(leaves_[i].greatest, leaves_[i + 1].least)) continue;
    const absl::Status status = FindOverlap(i);
    if (!status.ok()) return status;
  }
  return CheckRepeated();
}

// A split was cut short: what the left leaf has of the right one's range is in the right one too.
template <class C>
absl::Status Recovery<C>::FindOverlap(size_t left) {
  const FoundLeaf& right = leaves_[left + 1];
  FoundLeaf& found = leaves_[left];
  const pmem::Offset where = found.leaf->place.head();
  if (!KeyFits(right.least) || !KeyFits(found.greatest)) {
    return Damaged("a pair whose record has another key at the border of the leaf", where);
  }
  Overlap overlap{left, 0};
  Pair greatest = found.least;
  bool missing = false;
  ForEachSlot(*found.leaf, [&](unsigned bit, Pair pair) {
    if (tree_.codec.Less(pair, right.least)) {
      if (tree_.codec.Less(greatest, pair)) greatest = pair;
      return;
    }
    overlap.bits |= uint64_t{1} << bit;
    missing |= !Has(right, pair);
    if constexpr (C::kRecords) {
      if (C::IsRecord(pair.value)) removed_records_.push_back(C::RecordOf(pair.value));
    }
  });
  if (missing) return Damaged("a key that is not below its right neighbour's in the leaf", where);
  found.greatest = greatest;
  report_.keys -= static_cast<uint64_t>(std::popcount(overlap.bits));
  if (!medium_.Canary("sstree.recovery.overlaps_stay")) overlaps_.push_back(overlap);
  return absl::OkStatus();
}

template <class C>
bool Recovery<C>::Has(const FoundLeaf& found, Pair pair) const {
  bool has = false;
  ForEachSlot(*found.leaf, [&](unsigned, Pair other) { has |= tree_.codec.SameKey(pair, other); });
  return has;
}

// A record has two owners only if one of them is about to lose it; then it keeps the other.
template <class C>
absl::Status Recovery<C>::CheckRepeated() {
  std::vector<pmem::Offset> repeated;
  for (const Part& part : parts_) {
    repeated.insert(repeated.end(), part.repeated.begin(), part.repeated.end());
  }
  std::sort(repeated.begin(), repeated.end());
  std::sort(removed_records_.begin(), removed_records_.end());
  std::vector<pmem::Offset> alone;
  std::set_difference(repeated.begin(), repeated.end(), removed_records_.begin(),
                      removed_records_.end(), std::back_inserter(alone));
  if (!alone.empty()) return Damaged("two pairs with the record", alone[0]);
  std::set_difference(removed_records_.begin(), removed_records_.end(), repeated.begin(),
                      repeated.end(), std::back_inserter(alone));
  removed_records_ = std::move(alone);
  return absl::OkStatus();
}

// --- separators and the tree ---

// Separators come from the keys that the leaves hold (C8 of the review: without a log that is
// sound).
template <class C>
absl::Status Recovery<C>::Separate(const FoundLeaf& left, const FoundLeaf& right, Separator* low) {
  const Pair first =
      medium_.Canary("sstree.recovery.wrong_separator") ? right.greatest : right.least;
  const bool tie = left.greatest.key == right.least.key;
  const pmem::Offset where = right.leaf->place.head();
  if (tie && (!KeyFits(left.greatest) || !KeyFits(right.least))) {
    return Damaged("a pair whose record has another key at the border of the leaf", where);
  }
  if (!tree_.codec.Less(left.greatest, right.least)) {
    return Damaged("a key that is not above its left neighbour's keys in the leaf", where);
  }
  *low = tree_.codec.Between(left.greatest, first, separators_.Current().texts);
  return absl::OkStatus();
}

template <class C>
absl::Status Recovery<C>::SeparateLeaves() {
  if (leaves_.empty()) return absl::OkStatus();
  const size_t tasks = PartsOf(leaves_.size(), kLeavesPerTask);
  parents_.resize(tasks);
  stretches_.resize(tasks);
  return Parallel(tasks, [&](size_t task) {
    const auto part = lodgekv::Part::Of(leaves_.size(), tasks, task);
    std::vector<typename Inner::Child> children;
    children.reserve(part.end - part.begin);
    for (size_t i = part.begin; i < part.end; ++i) {
      Separator low = C::MinusInfinity();
      if (i > 0) {
        const absl::Status status = Separate(leaves_[i - 1], leaves_[i], &low);
        if (!status.ok()) return status;
      }
      children.push_back({low, leaves_[i].leaf});
      if (settles_ && (i - part.begin) % tree_.settling.stretch_leaves() == 0) {
        stretches_[task].push_back({i > 0 ? C::TextOf(low) : std::string(), i});
      }
    }
    parents_[task] = tree_.inner.MakeParents(children);
    return absl::OkStatus();
  });
}

template <class C>
void Recovery<C>::BuildTree() {
  separators_.ForEach([this](TextsOfThread& own) { tree_.dram.Take(own.arena); });
  if (!leaves_.empty()) {
    return tree_.inner.BuildOver(std::move(parents_), context_.recovery_threads);
  }
  const typename Inner::Child child{C::MinusInfinity(), tree_.leaves.New()};
  child.node->lock.Unlock();
  tree_.inner.Build({&child, 1});
}

// --- what a crash has left ---

template <class C>
void Recovery<C>::FlushLeaf(pmem::Offset head) {
  const media::Subnode* at = tree_.SubnodeAt(head);
  for (unsigned i = 0; i < kMaxSubnodes; ++i) {
    medium_.Flush(at, sizeof(*at));
    const uint64_t next = at->next.LoadRelaxed();
    if (next == media::kFree || next == media::End()) return;
    at = tree_.NextOf(*at);
  }
}

// What is seen may not be durable: each store here relies on it.
template <class C>
void Recovery<C>::Mend() {
  const bool flushes = settles_ && !medium_.Canary("sstree.recovery.mends_unsettled");
  bool any = !overlaps_.empty();
  for (const Part& part : parts_) {
    any |= !part.broken.empty() || !part.empty.empty();
    report_.repairs += part.broken.size() + part.empty.size();
    if (!flushes) continue;
    for (const BrokenList& list : part.broken) FlushLeaf(list.head);
    for (const pmem::Offset head : part.empty) FlushLeaf(head);
  }
  if (!any) return;
  report_.repairs += overlaps_.size();
  for (const Overlap& overlap : overlaps_) {
    if (!flushes) break;
    FlushLeaf(leaves_[overlap.leaf].leaf->place.head());
    FlushLeaf(leaves_[overlap.leaf + 1].leaf->place.head());
  }
  if (flushes) medium_.Fence();
  MendLists();
  ClearOverlaps();
  DropEmpty();
}

template <class C>
void Recovery<C>::MendLists() {
  bool any = false;
  for (const Part& part : parts_) {
    for (const BrokenList& list : part.broken) {
      media::Subnode* subnode = tree_.SubnodeAt(list.subnode);
      medium_.Store(subnode->next, media::End());
      medium_.FlushLine(subnode);
      any = true;
    }
  }
  if (!any) return;
  LODGEKV_CRASH_POINT(medium_, "sstree.recovery.1");
  medium_.Fence();
}

template <class C>
void Recovery<C>::ClearOverlaps() {
  if (overlaps_.empty()) return;
  for (const Overlap& overlap : overlaps_) {
    Leaf& leaf = *leaves_[overlap.leaf].leaf;
    media::Subnode* head = tree_.HeadOf(leaf);
    const uint64_t valid = head->word.LoadRelaxed() & media::kValidMask & ~overlap.bits;
    medium_.Store(head->word, SealedWord(valid));
    medium_.FlushLine(head);
    leaf.place = LeafPlace(leaf.place.head(), leaf.place.subnodes(), SlotsOf(valid, 0));
  }
  LODGEKV_CRASH_POINT(medium_, "sstree.recovery.2");
  medium_.Fence();
}

// From the end of each list: a subnode that no head leads to any more would be one itself. All
// leaves share the fences.
template <class C>
void Recovery<C>::DropEmpty() {
  std::vector<std::vector<media::Subnode*>> lists;
  for (const Part& part : parts_) {
    for (const pmem::Offset head : part.empty) {
      auto& list = lists.emplace_back(1, tree_.SubnodeAt(head));
      while (list.back()->next.LoadRelaxed() != media::End()) {
        list.push_back(tree_.NextOf(*list.back()));
      }
    }
  }
  while (!lists.empty()) {
    for (const auto& list : lists) {
      medium_.Store(list.back()->next, media::kFree);
      medium_.FlushLine(list.back());
    }
    LODGEKV_CRASH_POINT(medium_, "sstree.recovery.3");
    medium_.Fence();
    for (auto& list : lists) {
      tree_.subnodes.Unmark(pool_.OffsetOf(list.back()));
      list.pop_back();
    }
    std::erase_if(lists, [](const auto& list) { return list.empty(); });
  }
}

// Little is gained by handing over a small tree, and too little space is left in a full pool.
template <class C>
void Recovery<C>::BeginSettling() {
  if (settles_ && !leaves_.empty()) {
    std::vector<pmem::Offset> subnodes;
    std::vector<SettleAtTouch::Stretch> stretches;
    size_t leaf = 0;
    const auto add_leaves = [&](size_t end) {
      for (; leaf < end; ++leaf) {
        const media::Subnode* at = tree_.HeadOf(*leaves_[leaf].leaf);
        for (unsigned i = 0; i < leaves_[leaf].leaf->place.subnodes(); ++i) {
          if (i > 0) at = tree_.NextOf(*at);
          subnodes.push_back(pool_.OffsetOf(at));
        }
      }
    };
    for (auto& of_task : stretches_) {
      for (auto& stretch : of_task) {
        add_leaves(stretch.first);
        stretches.push_back({std::move(stretch.low), subnodes.size()});
      }
    }
    add_leaves(leaves_.size());
    const bool few = stretches.size() == 1;
    tree_.settling.Begin(std::move(subnodes), std::move(stretches));
    if (!few && !pool_.tight()) return;
  }
  (void)tree_.rest.FinishNow();
}

template <class C>
absl::Status Recovery<C>::Run() {
  const auto start = std::chrono::steady_clock::now();
  report_.clean = pool_.was_clean();
  report_.threads = std::max(1u, context_.recovery_threads);
  tree_.subnodes.Adopt(pool_.Chunks());
  tree_.slab.Adopt();
  absl::Status status = FindSubnodes();
  if (status.ok()) status = FindHeads();
  if (status.ok()) status = LookThrough();
  if (!status.ok()) return status;
  SortLeaves();
  status = FindOverlaps();
  if (status.ok()) status = SeparateLeaves();
  if (status.ok()) status = intents_.Mark(Intents::LeavesMarked::kBefore);
  if (status.ok()) status = pool_.contents().FinishVerify();
  if (!status.ok()) return status;
  Mend();
  BuildTree();
  BeginSettling();
  tree_.space.set_reserve(pmem::ReservePolicy::kUse);
  status = intents_.Apply(&report_);
  if (!status.ok()) return status;
  for (const pmem::Offset record : removed_records_) tree_.slab.Free(record);
  tree_.space.set_reserve(pmem::ReservePolicy::kKeep);
  if (!intents_.empty()) report_.keys = LeafWalk<C>(tree_).CountKeys();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report_.milliseconds = took.count();
  tree_.rest.Start(report_, start, context_.on_recovery_end);
  return absl::OkStatus();
}

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> SsTree<C>::Recover(const EngineContext& context,
                                                           RecoveryReport* report) {
  std::unique_ptr<SsTree> engine(new SsTree(context));
  const absl::Status status =
      Recovery<C>(engine->tree_, engine->pair_writer_, context, report).Run();
  if (!status.ok()) return status;
  return engine;
}

template class Recovery<Fixed64Codec>;
template class Recovery<BytesCodec>;
template class SsTree<Fixed64Codec>;
template class SsTree<BytesCodec>;

}  // namespace lodgekv::sstree
