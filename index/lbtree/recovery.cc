// Recovery (LB+-Tree 3.1 and 4.2): the leaves are found along their siblings, then looked through,
// each task making the inner nodes above its run of leaves, and the inner tree is built over them;
// all of it by several threads. Batches whose intent is found are done. What changes on the medium:
// empty leaves are unlinked (by one store each), intents are done by the ordinary protocols and
// retired. So recovery may be cut anywhere and begun again.
//
// Of a leaf nothing is kept beside its place in the chain but what its task is looking at: what
// stays is the tree. After a kill the leaves' lines are flushed when they are touched first, or by
// the worker in the background, which frees what nobody owns afterwards (node/rest_of_recovery.h).
#include <algorithm>
#include <bit>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "index/lbtree/lbtree.h"
#include "index/lbtree/leaf_walk.h"
#include "index/lbtree/writes.h"
#include "index/node/chain_walk.h"
#include "index/node/intent_recovery.h"
#include "index/node/recovery_tasks.h"
#include "index/node/settle_at_touch.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

namespace {

constexpr size_t kLeavesPerTask = 4096;
constexpr size_t kLeavesAhead = 4;

absl::Status Damaged(std::string_view what, pmem::Offset offset) {
  return DamagedPool("lbtree", what, offset);
}

// For chain_walk.h.
struct Siblings {
  pmem::Pool& pool;

  absl::Status Next(pmem::Offset offset, pmem::Offset* next) const {
    if (absl::Status status = pool.contents().EnsureVerified(offset); !status.ok()) return status;
    const auto* leaf = pool.At<media::Block>(offset);
    if (ReadChecked(leaf[0].tail[AltOf(leaf) ? 1 : 0].Load(), next)) return absl::OkStatus();
    return Damaged("a sibling with wrong check bits in the leaf", offset);
  }
  void Prefetch(pmem::Offset offset) const {
    const char* at = pool.At<char>(offset);
    lodgekv::Prefetch(at);
    lodgekv::Prefetch(at + pmem::kBlockBytes - 1);
  }
  absl::Status NoLeaf(pmem::Offset offset, pmem::Offset) const {
    return Damaged("a sibling that is no leaf in the leaf", offset);
  }
  absl::Status ComesBack(pmem::Offset offset) const {
    return Damaged("a chain of leaves that leads back", offset);
  }
};

// One recovery. It belongs to the thread that opens the pool; what it runs in parallel are its
// tasks.
//
// INVARIANT: nothing is stored before the whole pool is verified (FinishVerify), of which each leaf
// was as the chain came to it.
// INVARIANT: nothing is allocated before all that is in use has been marked. What is not in use is
// allocated only when all leaves are settled (node/settle_at_touch.h): intents are done before, in
// fresh chunks.
template <class C>
class Recovery {
 public:
  Recovery(TreeState<C>& tree, PairWriter<C>& writer, const EngineContext& context,
           RecoveryReport* report)
      : tree_(tree),
        pool_(tree.pool),
        medium_(tree.medium),
        context_(context),
        report_(*report),
        settles_(!pool_.was_clean()),
        chain_(pool_, tree.leaves, {pool_}),
        intents_("lbtree", tree, writer) {}

  absl::Status Run();

 private:
  using Intents = IntentRecovery<C, TreeState<C>, PairWriter<C>>;
  using Inner = typename TreeState<C>::Inner;
  using Separator = typename C::Separator;

  // Of a leaf's pairs.
  struct LeafSummary {
    unsigned pairs = 0;
    Pair least;
    Pair greatest;
  };
  // Empty leaves between two that stay: the left one leads past them.
  struct Gap {
    pmem::Offset left;
    pmem::Offset next;  // 0: they are the last ones
  };
  // Neighbouring leaves that one task looks through, and what it says of those that stay. What is
  // between them and those of other runs is left to JoinRuns.
  struct LeafRun {
    typename Inner::Nodes parents;  // above those that stay
    uint64_t kept = 0;              // how many stay
    uint64_t keys = 0;
    pmem::Offset first_kept = 0;
    pmem::Offset last_kept = 0;
    LeafSummary first;  // of the first that stays
    LeafSummary last;   // of the last that has pairs; none: none has
    bool begins_empty = false;
    bool ends_empty = false;  // or all of it
    std::vector<Gap> gaps;
    // For settling: those that stay, and stretches of them by their position there.
    std::vector<pmem::Offset> leaves;
    std::vector<SettleAtTouch::Stretch> stretches;
  };

  absl::Status FindLeaves();
  absl::Status LookThrough();
  absl::Status LookThroughRun(size_t begin, size_t end, LeafRun* run);
  absl::Status KeepLeaf(pmem::Offset leaf, const LeafSummary& summary, LeafRun* run,
                        std::vector<typename Inner::Child>* children);
  void AddToStretch(pmem::Offset leaf, Separator low, LeafRun* run) const;
  absl::Status Separate(const LeafSummary& left, const LeafSummary& right, pmem::Offset leaf,
                        Separator* low);
  absl::Status LookAt(pmem::Offset offset, LeafSummary* summary);
  absl::Status LookAtSlot(pmem::Offset offset, const Header& header, const media::Block& block,
                          unsigned slot, LeafSummary* summary);
  // Does its record decide where the leaf's keys begin or end?
  static bool Ties(Pair pair, const LeafSummary& summary) {
    return pair.key == summary.least.key || pair.key == summary.greatest.key;
  }
  bool KeyFits(Pair pair) const {
    if constexpr (C::kRecords) return tree_.codec.KeyFits(pair);
    return true;
  }
  absl::Status BuildTree();
  absl::Status JoinRuns(std::vector<typename Inner::Nodes>* parents, std::vector<Gap>* gaps);
  void UnlinkEmpty(const Gap& gap);
  void BeginSettling();

  template <class Task>
  absl::Status Parallel(size_t tasks, Task task) {
    return RunTasks(tasks, context_.recovery_threads, task);
  }

  TreeState<C>& tree_;
  pmem::Pool& pool_;
  pmem::Medium& medium_;
  const EngineContext& context_;
  RecoveryReport& report_;
  const bool settles_;  // stores to leaves may not have been flushed
  ChainWalk<Siblings> chain_;
  std::vector<LeafRun> runs_;                  // from left to right
  pmem::PerWorker<TextsOfThread> separators_;  // until they are the tree's
  Intents intents_;
};

// --- the chain ---

template <class C>
absl::Status Recovery<C>::FindLeaves() {
  const auto area = pool_.engine_area();
  pmem::Offset first;
  if (!ReadChecked(area[media::kFirstLeaf].Load(), &first) || !tree_.leaves.IsUnit(first)) {
    return Damaged("a first leaf that is none", pool_.OffsetOf(&area[media::kFirstLeaf]));
  }
  PhaseProgress progress(context_.progress, "leaf chain", 0);
  const absl::Status status = chain_.Run(first, context_.recovery_threads, progress);
  report_.leaves_scanned = chain_.size();
  return status;
}

// --- what is in the leaves ---

template <class C>
absl::Status Recovery<C>::LookThrough() {
  runs_.resize(PartsOf(chain_.size(), kLeavesPerTask));
  PhaseProgress progress(context_.progress, "leaves", chain_.size());
  return Parallel(runs_.size(), [&](size_t task) {
    const Part part = Part::Of(chain_.size(), runs_.size(), task);
    const absl::Status status = LookThroughRun(part.begin, part.end, &runs_[task]);
    progress.Add(part.end - part.begin);
    return status;
  });
}

// An empty leaf is none of the tree's from here on, but for the leftmost one.
template <class C>
absl::Status Recovery<C>::LookThroughRun(size_t begin, size_t end, LeafRun* run) {
  const std::vector<pmem::Offset> leaves = chain_.Leaves(begin, end);
  std::vector<typename Inner::Child> children;
  children.reserve(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (i + kLeavesAhead < leaves.size()) {
      PrefetchLines(pool_.At<char>(leaves[i + kLeavesAhead]), tree_.leaf_bytes());
    }
    LeafSummary summary;
    absl::Status status = LookAt(leaves[i], &summary);
    if (!status.ok()) return status;
    if (summary.pairs == 0 && begin + i > 0) {
      tree_.leaves.Unmark(leaves[i]);
      run->ends_empty = true;
      continue;
    }
    status = KeepLeaf(leaves[i], summary, run, &children);
    if (!status.ok()) return status;
  }
  if (!children.empty()) run->parents = tree_.inner.MakeParents(children);
  return absl::OkStatus();
}

template <class C>
absl::Status Recovery<C>::KeepLeaf(pmem::Offset leaf, const LeafSummary& summary, LeafRun* run,
                                   std::vector<typename Inner::Child>* children) {
  Separator low{};
  if (run->kept == 0) {
    run->first_kept = leaf;
    run->first = summary;
    run->begins_empty = run->ends_empty;
  } else {
    const absl::Status status = Separate(run->last, summary, leaf, &low);
    if (!status.ok()) return status;
    if (run->ends_empty) run->gaps.push_back({run->last_kept, leaf});
  }
  if (settles_) AddToStretch(leaf, low, run);
  run->ends_empty = false;
  run->last_kept = leaf;
  if (summary.pairs > 0) run->last = summary;
  run->keys += summary.pairs;
  ++run->kept;
  children->push_back({low, tree_.LeafAt(leaf)});
  return absl::OkStatus();
}

// The low of a run's first leaf is not known yet: see JoinRuns.
template <class C>
void Recovery<C>::AddToStretch(pmem::Offset leaf, Separator low, LeafRun* run) const {
  if (run->leaves.empty()) {
    run->stretches.push_back({"", 0});
  } else if (run->leaves.size() % tree_.settling.stretch_leaves() == 0) {
    run->stretches.push_back({C::TextOf(low), run->leaves.size()});
  }
  run->leaves.push_back(leaf);
}

// What divides a leaf with pairs from the last one with pairs to its left (without: there is none).
// Separators come from the keys that the leaves hold (C8 of the review: without a log that is
// sound).
template <class C>
absl::Status Recovery<C>::Separate(const LeafSummary& left, const LeafSummary& right,
                                   pmem::Offset leaf, Separator* low) {
  const bool wrong = medium_.Canary("lbtree.recovery.wrong_separator");
  const Pair first = wrong ? right.greatest : right.least;
  if (left.pairs == 0) {
    *low = tree_.codec.Between(right.least, first, separators_.Current().texts);
    return absl::OkStatus();
  }
  const bool tie = left.greatest.key == right.least.key;
  if (tie && (!KeyFits(left.greatest) || !KeyFits(right.least))) {
    return Damaged("a pair whose record has another key at the border of the leaf", leaf);
  }
  if (!tree_.codec.Less(left.greatest, right.least)) {
    return Damaged("a key that is not above its left neighbour's keys in the leaf", leaf);
  }
  *low = tree_.codec.Between(left.greatest, first, separators_.Current().texts);
  return absl::OkStatus();
}

template <class C>
absl::Status Recovery<C>::LookAt(pmem::Offset offset, LeafSummary* summary) {
  const media::Block* leaf = tree_.LeafAt(offset);
  for (unsigned b = 0; b < tree_.blocks; ++b) {
    const Header header = HeaderOf(leaf, b);
    if (!header.IsSound() || (b > 0 && header.alt())) {
      return Damaged("a damaged header in the leaf", offset);
    }
    if ((header.slots() & ~tree_.usable_slots) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("leaf_slots is ", tree_.parameters.leaf_slots,
                       ", but a leaf of the pool has more pairs; open it with the larger value"));
    }
    for (uint32_t slots = header.slots(); slots != 0; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      const absl::Status status = LookAtSlot(offset, header, leaf[b], slot, summary);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

template <class C>
absl::Status Recovery<C>::LookAtSlot(pmem::Offset offset, const Header& header,
                                     const media::Block& block, unsigned slot,
                                     LeafSummary* summary) {
  const Pair pair = SlotPair(block, slot);
  const C& codec = tree_.codec;
  if constexpr (C::kRecords) {
    if (!codec.PairIsSound(pair)) {
      return Damaged("a pair whose check bits do not fit in the leaf", offset);
    }
    if (C::IsRecord(pair.value) &&
        tree_.slab.Mark(C::RecordOf(pair.value)) != pmem::UnitArena::MarkResult::kMarked) {
      return Damaged("a pair whose record is none or another's in the leaf", offset);
    }
  }
  // A pool that was closed in order has a checksum over its leaves instead.
  if (!pool_.was_clean() && header.FingerprintAt(slot) != FingerprintOf(codec.HashOf(pair))) {
    return Damaged("a fingerprint that is not its key's in the leaf", offset);
  }
  if (summary->pairs > 0 && Ties(pair, *summary) &&
      (!KeyFits(pair) || !KeyFits(summary->least) || !KeyFits(summary->greatest))) {
    return Damaged("a pair whose record has another key in the leaf", offset);
  }
  if (summary->pairs == 0 || codec.Less(pair, summary->least)) summary->least = pair;
  if (summary->pairs == 0 || codec.Less(summary->greatest, pair)) summary->greatest = pair;
  ++summary->pairs;
  return absl::OkStatus();
}

// --- the tree ---

template <class C>
absl::Status Recovery<C>::BuildTree() {
  std::vector<typename Inner::Nodes> parents;
  std::vector<Gap> gaps;
  const absl::Status status = JoinRuns(&parents, &gaps);
  if (!status.ok()) return status;
  separators_.ForEach([this](TextsOfThread& own) { tree_.dram.Take(own.arena); });
  for (const Gap& gap : gaps) UnlinkEmpty(gap);
  if (!gaps.empty()) {
    LODGEKV_CRASH_POINT(medium_, "lbtree.recovery.1");
    medium_.Fence();
  }
  tree_.inner.BuildOver(std::move(parents), context_.recovery_threads);
  return absl::OkStatus();
}

// What runs do not know of one another: the separators between them, and empty leaves there.
template <class C>
absl::Status Recovery<C>::JoinRuns(std::vector<typename Inner::Nodes>* parents,
                                   std::vector<Gap>* gaps) {
  uint64_t kept = 0;
  pmem::Offset last_kept = 0;
  LeafSummary last;
  bool empty = false;  // between last_kept and what follows
  for (LeafRun& run : runs_) {
    if (run.kept == 0) {
      empty = true;
      continue;
    }
    if (kept > 0) {
      const absl::Status status =
          Separate(last, run.first, run.first_kept, &run.parents.front().low);
      if (!status.ok()) return status;
      if (settles_) run.stretches.front().low = C::TextOf(run.parents.front().low);
      if (empty || run.begins_empty) gaps->push_back({last_kept, run.first_kept});
    }
    gaps->insert(gaps->end(), run.gaps.begin(), run.gaps.end());
    parents->push_back(std::move(run.parents));
    kept += run.kept;
    report_.keys += run.keys;
    last_kept = run.last_kept;
    if (run.last.pairs > 0) last = run.last;
    empty = run.ends_empty;
  }
  if (empty) gaps->push_back({last_kept, 0});
  report_.repairs = chain_.size() - kept;
  return absl::OkStatus();
}

template <class C>
void Recovery<C>::UnlinkEmpty(const Gap& gap) {
  media::Block* leaf = tree_.LeafAt(gap.left);
  pmem::Word& sibling = leaf[0].tail[AltOf(leaf) ? 1 : 0];
  medium_.Store(sibling, CheckedWord(gap.next));
  medium_.FlushLine(&sibling);
}

// Little is gained by handing over a small tree, and too little space is left in a full pool.
template <class C>
void Recovery<C>::BeginSettling() {
  if (settles_) {
    std::vector<pmem::Offset> leaves;
    std::vector<SettleAtTouch::Stretch> stretches;
    for (LeafRun& run : runs_) {
      for (auto& stretch : run.stretches) {
        stretches.push_back({std::move(stretch.low), leaves.size() + stretch.first});
      }
      leaves.insert(leaves.end(), run.leaves.begin(), run.leaves.end());
      run.leaves = {};
    }
    const bool few = stretches.size() == 1;
    tree_.settling.Begin(std::move(leaves), std::move(stretches));
    if (!few && !pool_.tight()) return;
  }
  (void)tree_.rest.FinishNow();
}

template <class C>
absl::Status Recovery<C>::Run() {
  const auto start = std::chrono::steady_clock::now();
  report_.clean = pool_.was_clean();
  report_.threads = std::max(1u, context_.recovery_threads);
  tree_.leaves.Adopt(pool_.Chunks());
  tree_.slab.Adopt();
  absl::Status status = FindLeaves();
  if (status.ok()) status = LookThrough();
  if (status.ok()) status = intents_.Mark(Intents::LeavesMarked::kBefore);
  if (status.ok()) status = pool_.contents().FinishVerify();
  if (status.ok()) status = BuildTree();
  if (!status.ok()) return status;
  BeginSettling();
  tree_.space.set_reserve(pmem::ReservePolicy::kUse);
  status = intents_.Apply(&report_);
  if (!status.ok()) return status;
  tree_.space.set_reserve(pmem::ReservePolicy::kKeep);
  if (!intents_.empty()) report_.keys = LeafWalk<C>(tree_).CountKeys();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report_.milliseconds = took.count();
  tree_.rest.Start(report_, start, context_.on_recovery_end);
  return absl::OkStatus();
}

}  // namespace

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> LbTree<C>::Recover(const EngineContext& context,
                                                           RecoveryReport* report) {
  const pmem::Word& word = context.pool->engine_area()[media::kBlocks];
  uint64_t blocks;
  if (!ReadChecked(word.Load(), &blocks) || blocks < 1 || blocks > kMaxBlocks) {
    return Damaged("a leaf size that no pool has", context.pool->OffsetOf(&word));
  }
  std::unique_ptr<LbTree> engine(new LbTree(context, static_cast<unsigned>(blocks)));
  const absl::Status status =
      Recovery<C>(engine->tree_, engine->pair_writer_, context, report).Run();
  if (!status.ok()) return status;
  return engine;
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
