// Recovery (LB+-Tree 3.1 and 4.2): the leaves are found along their siblings, by several threads
// from recorded positions, then looked through in parallel, and the inner tree is built over them.
// Batches whose intent is found are done. What changes on the medium: empty leaves are unlinked
// (by one store each), intents are done by the ordinary protocols and retired. So recovery may be
// cut anywhere and begun again.
//
// Positions are hints. One may name a leaf that has been freed since, whose stale sibling leads
// into the middle of the chain: the walk from there then has some leaves that the walk from the
// left would have had. So walks are put together at the end, from the leftmost leaf on (JoinWalks),
// and what is not reached so is not of the tree.
#include <algorithm>
#include <bit>
#include <chrono>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "index/lbtree/lbtree.h"
#include "index/node/recovery_tasks.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

namespace {

constexpr size_t kLeavesPerTask = 4096;
constexpr size_t kLeavesAhead = 4;

absl::Status Damaged(std::string_view what, pmem::Offset offset) {
  return DamagedPool("lbtree", what, offset);
}

}  // namespace

template <class C>
class LbTree<C>::Recovery {
 public:
  Recovery(LbTree& tree, const EngineContext& context, RecoveryReport* report)
      : tree_(tree),
        pool_(tree.pool_),
        medium_(tree.medium_),
        context_(context),
        report_(*report),
        settler_(medium_, !pool_.was_clean() && !medium_.Canary("lbtree.recovery.no_settle")) {}

  absl::Status Run();

 private:
  // The leaves from a start on, up to the first that another walk has.
  struct Walk {
    std::vector<pmem::Offset> leaves;
    pmem::Offset end = 0;  // that leaf; 0: the last one was passed
    absl::Status status;
  };
  struct LeafSummary {
    unsigned pairs = 0;
    Pair least;
    Pair greatest;
  };

  absl::Status FindStarts();
  void WalkFrom(Walk* walk);
  absl::Status JoinWalks();
  absl::Status LookThrough();
  absl::Status LookAt(pmem::Offset offset, LeafSummary* summary);
  absl::Status LookAtSlot(pmem::Offset offset, const Header& header, const media::Block& block,
                          unsigned slot, LeafSummary* summary);
  // Does its record decide where the leaf's keys begin or end?
  static bool Ties(Pair pair, const LeafSummary& summary) {
    return pair.key == summary.least.key || pair.key == summary.greatest.key;
  }
  bool KeyFits(Pair pair) const {
    if constexpr (C::kRecords) return tree_.codec_.KeyFits(pair);
    return true;
  }
  absl::Status BuildTree();
  void UnlinkEmpty(pmem::Offset left, pmem::Offset next);
  absl::Status MarkIntents();
  absl::Status DoIntents();

  template <class Task>
  absl::Status Parallel(size_t tasks, Task task) {
    return RunTasks(tasks, context_.recovery_threads, task);
  }
  void Progress(std::string_view phase, uint64_t done, uint64_t total) const {
    if (context_.progress) context_.progress(phase, done, total);
  }

  LbTree& tree_;
  pmem::Pool& pool_;
  pmem::Medium& medium_;
  const EngineContext& context_;
  RecoveryReport& report_;
  const Settler settler_;
  std::vector<Walk> walks_;             // the first one begins at the leftmost leaf
  std::vector<pmem::Offset> leaves_;    // of the tree, from left to right
  std::vector<pmem::Offset> strays_;    // marked, and not of the tree
  std::vector<LeafSummary> summaries_;  // of leaves_
  std::vector<BatchIntents::Found> intents_;
  std::vector<pmem::Offset> removed_records_;  // that only an intent's deletes name
};

// --- the chain ---

template <class C>
absl::Status LbTree<C>::Recovery::FindStarts() {
  const auto area = pool_.engine_area();
  settler_.Settle(area.data(), media::kEngineWords * sizeof(pmem::Word));
  pmem::Offset first;
  if (!ReadChecked(area[media::kFirstLeaf].Load(), &first) || !tree_.leaves_.IsUnit(first)) {
    return Damaged("a first leaf that is none", pool_.OffsetOf(&area[media::kFirstLeaf]));
  }
  const auto start_at = [&](pmem::Offset offset) {
    if (tree_.leaves_.Mark(offset) != pmem::UnitArena::MarkResult::kMarked) return;
    walks_.emplace_back().leaves.push_back(offset);
  };
  start_at(first);
  for (const pmem::Word& word : area.subspan(media::kPositions, kLeafPositions)) {
    pmem::Offset offset;
    if (ReadChecked(word.Load(), &offset) && tree_.leaves_.IsUnit(offset)) start_at(offset);
  }
  return absl::OkStatus();
}

template <class C>
void LbTree<C>::Recovery::WalkFrom(Walk* walk) {
  for (;;) {
    const media::Block* leaf = tree_.LeafAt(walk->leaves.back());
    pmem::Offset next;
    if (!ReadChecked(leaf[0].tail[AltOf(leaf) ? 1 : 0].Load(), &next)) {
      walk->status = Damaged("a sibling with wrong check bits in the leaf", walk->leaves.back());
      return;
    }
    if (next == 0) return;
    if (!tree_.leaves_.IsUnit(next)) {
      walk->status = Damaged("a sibling that is no leaf in the leaf", walk->leaves.back());
      return;
    }
    const char* at = pool_.At<char>(next);
    Prefetch(at);
    Prefetch(at + pmem::kBlockBytes - 1);
    if (tree_.leaves_.Mark(next) != pmem::UnitArena::MarkResult::kMarked) {
      walk->end = next;
      return;
    }
    walk->leaves.push_back(next);
  }
}

// A walk ends where another begins, or, if that one's start was stale, in the middle of it.
template <class C>
absl::Status LbTree<C>::Recovery::JoinWalks() {
  std::unordered_map<pmem::Offset, std::pair<size_t, size_t>> place;  // of where walks end
  for (const Walk& walk : walks_) {
    if (walk.end != 0) place[walk.end] = {walks_.size(), 0};
  }
  for (size_t w = 0; w < walks_.size(); ++w) {
    for (size_t i = 0; i < walks_[w].leaves.size(); ++i) {
      const auto found = place.find(walks_[w].leaves[i]);
      if (found != place.end()) found->second = {w, i};
    }
  }
  std::vector<size_t> used(walks_.size(), SIZE_MAX);  // from this leaf on
  size_t begin = 0;
  for (size_t w = 0;;) {
    Walk& walk = walks_[w];
    if (used[w] != SIZE_MAX)
      return Damaged("a chain of leaves that leads back", walk.leaves[begin]);
    used[w] = begin;
    if (!walk.status.ok()) return walk.status;
    leaves_.insert(leaves_.end(), walk.leaves.begin() + static_cast<ptrdiff_t>(begin),
                   walk.leaves.end());
    if (walk.end == 0) break;
    std::tie(w, begin) = place[walk.end];
    if (medium_.Canary("lbtree.recovery.whole_walks")) begin = 0;
    if (w == walks_.size()) return Damaged("a leaf that is reached twice", walk.end);
  }
  for (size_t w = 0; w < walks_.size(); ++w) {
    const auto& all = walks_[w].leaves;
    const size_t strays = std::min(used[w], all.size());
    strays_.insert(strays_.end(), all.begin(), all.begin() + static_cast<ptrdiff_t>(strays));
  }
  report_.leaves_scanned = leaves_.size();
  return absl::OkStatus();
}

// --- what is in the leaves ---

template <class C>
absl::Status LbTree<C>::Recovery::LookThrough() {
  summaries_.resize(leaves_.size());
  const size_t tasks = (leaves_.size() + kLeavesPerTask - 1) / kLeavesPerTask;
  return Parallel(tasks, [&](size_t task) {
    const size_t end = std::min(leaves_.size(), (task + 1) * kLeavesPerTask);
    for (size_t i = task * kLeavesPerTask; i < end; ++i) {
      if (i + kLeavesAhead < end) {
        const char* ahead = pool_.At<char>(leaves_[i + kLeavesAhead]);
        for (size_t at = 0; at < tree_.leaf_bytes(); at += pmem::kLineBytes) Prefetch(ahead + at);
      }
      const absl::Status status = LookAt(leaves_[i], &summaries_[i]);
      if (!status.ok()) return status;
    }
    settler_.EndThread();
    return absl::OkStatus();
  });
}

template <class C>
absl::Status LbTree<C>::Recovery::LookAt(pmem::Offset offset, LeafSummary* summary) {
  const media::Block* leaf = tree_.LeafAt(offset);
  settler_.Settle(leaf, tree_.leaf_bytes());
  for (unsigned b = 0; b < tree_.blocks_; ++b) {
    const Header header = HeaderOf(leaf, b);
    if (!header.IsSound() || (b > 0 && header.alt())) {
      return Damaged("a damaged header in the leaf", offset);
    }
    if ((header.slots() & ~tree_.UsableSlots()) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("leaf_slots is ", tree_.parameters_.leaf_slots,
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
absl::Status LbTree<C>::Recovery::LookAtSlot(pmem::Offset offset, const Header& header,
                                             const media::Block& block, unsigned slot,
                                             LeafSummary* summary) {
  const Pair pair = SlotPair(block, slot);
  const C& codec = tree_.codec_;
  if constexpr (C::kRecords) {
    if (!codec.PairIsSound(pair)) {
      return Damaged("a pair whose check bits do not fit in the leaf", offset);
    }
    if (C::IsRecord(pair.value) &&
        tree_.slab_.Mark(C::RecordOf(pair.value)) != pmem::UnitArena::MarkResult::kMarked) {
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

// Separators come from the keys that the leaves hold (C8 of the review: without a log that is
// sound). An empty leaf has none, and is unlinked; the leftmost one stays.
template <class C>
absl::Status LbTree<C>::Recovery::BuildTree() {
  std::vector<typename Inner::Child> children = {{C::MinusInfinity(), tree_.LeafAt(leaves_[0])}};
  std::vector<pmem::Offset> kept = {leaves_[0]};
  const LeafSummary* last = summaries_[0].pairs > 0 ? &summaries_[0] : nullptr;
  bool skipped = false;
  for (size_t i = 1; i < leaves_.size(); ++i) {
    const LeafSummary& summary = summaries_[i];
    if (summary.pairs == 0) {
      strays_.push_back(leaves_[i]);
      skipped = true;
      continue;
    }
    const bool tie = last != nullptr && last->greatest.key == summary.least.key;
    if (tie && (!KeyFits(last->greatest) || !KeyFits(summary.least))) {
      return Damaged("a pair whose record has another key at the border of the leaf", leaves_[i]);
    }
    if (last != nullptr && !tree_.codec_.Less(last->greatest, summary.least)) {
      return Damaged("a key that is not above its left neighbour's keys in the leaf", leaves_[i]);
    }
    const Pair left = last != nullptr ? last->greatest : summary.least;
    const bool wrong = medium_.Canary("lbtree.recovery.wrong_separator");
    const Pair right = wrong ? summary.greatest : summary.least;
    children.push_back({tree_.codec_.Between(left, right, tree_.texts_), tree_.LeafAt(leaves_[i])});
    if (skipped) UnlinkEmpty(kept.back(), leaves_[i]);
    skipped = false;
    kept.push_back(leaves_[i]);
    last = &summary;
  }
  if (skipped) UnlinkEmpty(kept.back(), 0);
  report_.repairs = leaves_.size() - kept.size();
  if (report_.repairs > 0) {
    LODGEKV_CRASH_POINT(medium_, "lbtree.recovery.1");
    medium_.Fence();
  }
  leaves_ = std::move(kept);
  for (const LeafSummary& summary : summaries_) report_.keys += summary.pairs;
  tree_.tree_.Build(children);
  return absl::OkStatus();
}

template <class C>
void LbTree<C>::Recovery::UnlinkEmpty(pmem::Offset left, pmem::Offset next) {
  media::Block* leaf = tree_.LeafAt(left);
  pmem::Word& sibling = leaf[0].tail[AltOf(leaf) ? 1 : 0];
  medium_.Store(sibling, CheckedWord(next));
  medium_.FlushLine(&sibling);
}

// --- batches ---

// A put's record may be in its leaf already; a deleted pair's may be gone from it.
template <class C>
absl::Status LbTree<C>::Recovery::MarkIntents() {
  auto found = tree_.intents_.Find("lbtree", settler_);
  if (!found.ok()) return found.status();
  intents_ = *std::move(found);
  if constexpr (C::kRecords) {
    for (const auto& intent : intents_) {
      for (const IntendedOp& op : intent.ops) {
        if (!tree_.codec_.PairIsSound(op.pair)) {
          return Damaged("a damaged pair in the batch", intent.intent.body);
        }
        if (!C::IsRecord(op.pair.value)) continue;
        const pmem::Offset record = C::RecordOf(op.pair.value);
        RecordView view;
        if (!VerifyRecord(pool_, tree_.slab_, record, &view)) {
          return Damaged("a damaged record of a batch", record);
        }
        settler_.Settle(pool_.At<char>(record),
                        RecordBytes(view.key.size(), view.value.size(), view.expiry_unix_ms != 0));
        const bool alone = tree_.slab_.Mark(record) == pmem::UnitArena::MarkResult::kMarked;
        if (alone && op.remove) removed_records_.push_back(record);
      }
    }
  }
  return absl::OkStatus();
}

template <class C>
absl::Status LbTree<C>::Recovery::DoIntents() {
  if (medium_.Canary("lbtree.recovery.no_intents")) intents_.clear();
  for (auto& intent : intents_) {
    const bool early = medium_.Canary("lbtree.recovery.retire_first");
    if (early) tree_.intents_.Retire(intent.intent);
    const Outcome outcome = tree_.ApplyIntended(intent.ops);
    if (outcome == Outcome::kPoolFull) {
      return absl::ResourceExhaustedError(
          "the pool is full: there is no leaf for a batch that was under way; nothing is lost");
    }
    if (intent.applied_index.has_value()) tree_.StoreAppliedIndex(*intent.applied_index);
    if (!early) tree_.intents_.Retire(intent.intent);
    report_.log_entries_replayed += intent.ops.size();
  }
  for (const pmem::Offset record : removed_records_) tree_.slab_.Free(record);
  Worker& worker = tree_.workers_.Current();
  worker.retired.HandTo(tree_.reclaimer_);
  return absl::OkStatus();
}

template <class C>
absl::Status LbTree<C>::Recovery::Run() {
  const auto start = std::chrono::steady_clock::now();
  report_.clean = pool_.was_clean();
  report_.threads = std::max(1u, context_.recovery_threads);
  tree_.leaves_.Adopt(pool_.Chunks());
  tree_.slab_.Adopt();
  absl::Status status = FindStarts();
  if (!status.ok()) return status;
  status = Parallel(walks_.size(), [&](size_t i) {
    WalkFrom(&walks_[i]);
    return absl::OkStatus();
  });
  if (status.ok()) status = JoinWalks();
  Progress("leaves", 0, leaves_.size());
  if (status.ok()) status = LookThrough();
  Progress("leaves", leaves_.size(), leaves_.size());
  if (status.ok()) status = MarkIntents();
  if (!status.ok()) return status;
  status = BuildTree();
  if (!status.ok()) return status;
  tree_.leaves_.FinishMark();
  tree_.slab_.FinishMark();
  for (const pmem::Offset leaf : strays_) tree_.leaves_.Free(leaf);
  tree_.splits_ = leaves_.size();
  tree_.leaf_reserve_ = pmem::Reserve::kUse;
  status = DoIntents();
  if (!status.ok()) return status;
  tree_.leaf_reserve_ = pmem::Reserve::kKeep;
  tree_.RecordPositions(leaves_.size(), [this](size_t leaf) { return leaves_[leaf]; });
  if (!intents_.empty()) report_.keys = tree_.CountKeys();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report_.milliseconds = took.count();
  return absl::OkStatus();
}

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> LbTree<C>::Recover(const EngineContext& context,
                                                           RecoveryReport* report) {
  const pmem::Word& word = context.pool->engine_area()[media::kBlocks];
  uint64_t blocks;
  if (!ReadChecked(word.Load(), &blocks) || blocks < 1 || blocks > kMaxBlocks) {
    return Damaged("a leaf size that no pool has", context.pool->OffsetOf(&word));
  }
  std::unique_ptr<LbTree> tree(new LbTree(context, static_cast<unsigned>(blocks)));
  const absl::Status status = Recovery(*tree, context, report).Run();
  if (!status.ok()) return status;
  return tree;
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
