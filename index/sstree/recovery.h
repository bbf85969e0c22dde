// Recovery (SSTree III-B and IV-D): every subnode of the arena's chunks is looked at, by several
// threads. Those with the free tag are free, those that no next pointer refers to are heads. Then
// each leaf is looked through, which gives its metadata in DRAM; the leaves are sorted by their
// least keys, what a crash has left is mended, and the inner tree is built over them. Batches whose
// intent is found are done.
//
// What changes on the medium: lists and words that a crash has left half changed, leaves without
// pairs, intents. Each is one store, or done by the ordinary protocols: so recovery may be cut
// anywhere and begun again. After a kill the lines of the leaves are flushed when they are touched
// first, or by the worker in the background, which frees what nobody owns afterwards
// (node/rest_of_recovery.h).
//
// It belongs to the thread that opens the pool; what it runs in parallel are its tasks.
//
// INVARIANT: nothing is stored before the whole pool is verified (FinishVerify), of which each
// chunk was before it was read.
// INVARIANT: nothing is allocated before all that is in use has been marked. What is not in use is
// allocated only when all leaves are settled (node/settle_at_touch.h): intents are done before, in
// fresh chunks.
// INVARIANT: what a mending store relies on is durable before it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "index/engine_info.h"
#include "index/node/intent_recovery.h"
#include "index/node/recovery_tasks.h"
#include "index/sstree/pair_writer.h"
#include "index/sstree/tree_state.h"

namespace lodgekv::sstree {

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
        intents_("sstree", tree, writer) {}

  absl::Status Run();

 private:
  using Intents = IntentRecovery<C, TreeState<C>, PairWriter<C>>;
  using Inner = typename TreeState<C>::Inner;
  using Separator = typename C::Separator;

  // A leaf that has pairs.
  struct FoundLeaf {
    Pair least;
    Pair greatest;
    Leaf* leaf;
  };
  // A list that a crash has left with a free subnode at its end.
  struct BrokenList {
    pmem::Offset head;
    pmem::Offset subnode;  // whose next pointer becomes the end
  };
  // What one task has found.
  struct Part {
    uint64_t subnodes = 0;
    std::vector<pmem::Offset> heads;
    std::vector<FoundLeaf> leaves;
    uint64_t reached = 0;  // subnodes, from heads
    uint64_t keys = 0;
    std::vector<BrokenList> broken;
    std::vector<pmem::Offset> empty;     // heads
    std::vector<pmem::Offset> repeated;  // records that two pairs refer to
  };
  // Bits of a leaf whose pairs are in the next leaf too.
  struct Overlap {
    size_t leaf;
    uint64_t bits;
  };
  // What a leaf's list is, while it is looked at.
  struct List {
    const media::Subnode* at[kMaxSubnodes];
    unsigned count = 0;
    uint64_t valid = 0;
  };

  // recovery_leaves.cc
  absl::Status FindSubnodes();
  absl::Status LookAtSubnodes(const pmem::Chunk& chunk, Part* part);
  absl::Status FindHeads();
  absl::Status LookThrough();
  absl::Status LookAtLeaf(pmem::Offset head, Leaf* leaf, Part* part);
  absl::Status ReadList(pmem::Offset head, List* list, Part* part);
  absl::Status LookAtSlot(const List& list, unsigned number, unsigned slot, Leaf* leaf,
                          FoundLeaf* found, Part* part);
  bool KeyFits(Pair pair) const {
    if constexpr (C::kRecords) return tree_.codec.KeyFits(pair);
    return true;
  }
  // Does its record decide where the leaf's keys begin or end?
  static bool Ties(Pair pair, const FoundLeaf& found) {
    return pair.key == found.least.key || pair.key == found.greatest.key;
  }

  // recovery.cc
  void SortLeaves();
  absl::Status FindOverlaps();
  absl::Status FindOverlap(size_t left);
  bool Has(const FoundLeaf& found, Pair pair) const;
  absl::Status CheckRepeated();
  absl::Status SeparateLeaves();
  absl::Status Separate(const FoundLeaf& left, const FoundLeaf& right, Separator* low);
  void Mend();
  void FlushLeaf(pmem::Offset head);
  void MendLists();
  void ClearOverlaps();
  void DropEmpty();
  void BuildTree();
  void BeginSettling();

  static absl::Status Damaged(std::string_view what, pmem::Offset offset) {
    return DamagedPool("sstree", what, offset);
  }
  template <class F>
  void ForEachSlot(const Leaf& leaf, F f) const;
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
  std::vector<pmem::Chunk> chunks_;
  std::vector<Part> parts_;        // of each chunk
  std::vector<FoundLeaf> leaves_;  // from left to right
  std::vector<Overlap> overlaps_;
  std::vector<typename Inner::Nodes> parents_;
  std::vector<std::vector<SettleAtTouch::Stretch>> stretches_;  // of each task
  pmem::PerWorker<TextsOfThread> separators_;                   // until they are the tree's
  Intents intents_;
  std::vector<pmem::Offset> removed_records_;  // that only overlaps name
};

template <class C>
template <class F>
void Recovery<C>::ForEachSlot(const Leaf& leaf, F f) const {
  const media::Subnode* at = tree_.HeadOf(leaf);
  const uint64_t valid = at->word.LoadRelaxed() & media::kValidMask;
  for (unsigned i = 0; i < leaf.place.subnodes(); ++i) {
    if (i > 0) at = tree_.NextOf(*at);
    for (uint32_t slots = SlotsOf(valid, i); slots != 0; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      f(i * kSubnodeSlots + slot, SlotPair(*at, slot));
    }
  }
}

}  // namespace lodgekv::sstree
