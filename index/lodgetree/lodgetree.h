// LodgeTree (ICDE'25 style last-level surrogate buffer, see README.md): the engine.
//
// The way of a Put: Write (write.cc) finds the last-level node, appends to the partitioned version
// log, fences, and puts the pair into the node's Buffer Part. When the node is full the same fence
// carries a leaf-count flush (leaf_count_flush.cc), which may split a leaf (leaf_split.cc); a node
// with too many leaves splits by its hotness (hotness_aware_split.cc). All flushes of a group of
// writes share their fences (group_flush.cc).
//
// Locks: a writer holds the lock of the last-level node over its fences. Sequence numbers are taken
// under that lock, so in each node the order of numbers is the order of operations. Several nodes
// are locked from left to right; parents are locked after children; nothing else is held while
// waiting.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/engine_info.h"
#include "index/lodgetree/applied_entry.h"
#include "index/lodgetree/fence_horizon.h"
#include "index/lodgetree/holding_nodes.h"
#include "index/lodgetree/last_level_node.h"
#include "index/lodgetree/layout.h"
#include "index/lodgetree/partitioned_version_log.h"
#include "index/lodgetree/spare_space.h"
#include "index/node/codec.h"
#include "index/node/dram_arena.h"
#include "index/node/inner_tree.h"
#include "index/node/point_reads.h"
#include "index/node/reclaimer.h"
#include "index/node/retired_records.h"
#include "index/node/staged_pair.h"
#include "index/node/stored_values.h"
#include "index/node/thread_counts.h"
#include "index/pmem/full_memo.h"
#include "index/pmem/per_worker.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv::lodgetree {

// The engine's options, by the paper's names; see lodgetree.cc for bounds and documentation.
struct Parameters {
  unsigned node_slots;
  unsigned leaf_slots;
  unsigned t_node;
  unsigned t_split;
  unsigned log_entries;    // L
  unsigned hotness_ratio;  // t
  unsigned max_split;      // bound of M
  bool surrogate_buffer;
  bool leaf_count_flush;
  bool split_alone;
  bool multiple_split;
  bool use_n_split;
  bool log_reuse;
  uint64_t log_limit_bytes;

  explicit Parameters(const OptionValues& options);
};

inline constexpr unsigned kMaxTargets = kNodeSlots;  // leaves of one flush, at most
inline constexpr unsigned kMaxSplit = 8;

struct WorkerCounters {
  enum Name : unsigned {
    kFlushes,
    kFlushedLeaves,
    kFlushedPairs,
    kLeafSplits,
    kSecondCommits,
    kNodeSplits,
    kAddingSplits,
    kReducingSplits,
    kSuperseded,
    kLogReclaims,
    kMergedLeaves,
    kCount
  };
};

template <class C>
class LodgeTree final : public Engine {
 public:
  using Codec = C;
  using Key = typename C::Key;
  using Separator = typename C::Separator;
  using Node = LastLevelNode<C>;
  using Inner = InnerTree<C, Node>;
  using Attempt = typename Inner::Attempt;

  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineContext& context);
  static absl::StatusOr<std::unique_ptr<Engine>> Recover(const EngineContext& context,
                                                         RecoveryReport* report);

  Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                const WriteOptions& options) override;
  Outcome Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
               const ReadOptions& options) override;
  Outcome Scan(const ScanOptions& options, ScanVisitor visitor) override;
  uint64_t CountKeys() override;
  CheckReport Check() override;
  CheckReport CheckInPassing(CheckPause go_on) override;
  uint64_t AppliedIndex() const override;
  void VisitCounters(CounterVisitor visitor) const override;
  MemoryUse GetMemoryUse() const override;
  absl::Status Close() override;

 private:
  // A leaf as a flush works on it.
  struct LeafWork {
    unsigned leaf;  // index in the node
    media::Leaf* media;
    uint32_t group;                     // buffered pairs that go there
    uint32_t old_bits;                  // slots that count before
    uint32_t cleared;                   // slots of deleted pairs
    uint32_t moved;                     // slots whose pairs go to new leaves
    uint32_t filled;                    // slots written for new pairs
    uint32_t updated;                   // slots whose pairs get a new value word
    uint32_t lines;                     // lines to flush before the commit
    bool use_n;                         // before
    bool flip;                          // use_n changes: the leaf splits
    bool second_commit;                 // its new pairs wait for slots that the first commit frees
    unsigned first_fresh, fresh_count;  // in Round::fresh: pairs that are new in this leaf
    unsigned update_count;
    uint64_t watermark;
    uint8_t update_slots[kLeafSlots];  // pairs that it has, with a new value word
    uint64_t update_values[kLeafSlots];
    uint8_t fingerprints[kLeafSlots];  // of the slots in `filled`
    // When flip: the leaves to its right, in Round::new_leaves, the last one first.
    unsigned first_new, new_count;
    uint64_t next;  // the word that leads to the one that follows

    uint32_t NewBits() const { return (old_bits & ~cleared & ~moved) | filled; }
    uint64_t CommitWord() const {
      return CheckedWord(NewBits() | (use_n != flip ? media::kUseN : 0));
    }
  };
  using NewLeaf = typename Node::NewLeaf;
  // A pair of a leaf that splits, or of what goes there.
  struct Origin {
    Pair pair;
    int slot;  // in the old leaf; -1: new
  };
  // Of the pairs of a leaf that splits: into how many leaves they go, the lowest to the old one.
  struct Division {
    unsigned parts;
    size_t stay;  // in the old one
    // Of so many pairs, for which so many leaves are left, how many are not the last one's.
    size_t Border(size_t pairs) const {
      if (pairs <= stay) return pairs * (parts - 1) / parts;  // damaged ones went elsewhere
      return stay + (pairs - stay) * (parts - 2) / (parts - 1);
    }
  };
  struct FlushPlan {
    struct Target {
      uint8_t leaf;
      uint32_t group;
    };
    unsigned count = 0;
    unsigned splits = 0;
    std::array<Target, kMaxTargets> targets;
    void Clear() { count = splits = 0; }
    bool Has(unsigned leaf) const {
      return std::any_of(targets.begin(), targets.begin() + count,
                         [leaf](const Target& target) { return target.leaf == leaf; });
    }
  };
  // What one node does in a round.
  struct NodeTurn {
    static constexpr size_t kNone = SIZE_MAX;
    Node* node = nullptr;
    uint32_t leaves = 0;   // that it drains
    uint32_t drained = 0;  // buffered pairs that go there
    bool removes = false;  // a delete reaches its leaf
    uint64_t watermark = 0;
    unsigned first_work = 0, work_count = 0;
    // Of a group: what is written to this node, in Worker::order, and the first operation that has
    // to wait for a later round.
    size_t first_op = 0, op_count = 0;
    size_t waits = kNone;
    size_t new_leaves = 0;      // at most
    size_t further_leaves = 0;  // for which it has room then
    bool second_commit = false;

    bool of_group() const { return op_count != 0; }
    bool PublishesAtOnce() const { return leaves != 0 && !second_commit; }
  };
  // Flushes that share their fences: one, or all of a group.
  struct Round {
    std::vector<NodeTurn> turns;
    std::vector<LeafWork> works;  // the first `work_count`
    unsigned work_count = 0;
    std::vector<NewLeaf> new_leaves;
    std::vector<Pair> fresh;
    std::vector<Origin> origins;  // of the leaf that is being split
    std::vector<Pair> right;      // pairs of the leaf that is being written
    size_t planned_ops = 0;       // of the turns so far
    size_t planned_leaves = 0;    // new ones, at most
    bool staged = false;          // lines were flushed, for which the commits have to wait

    void Clear();
    LeafWork& NextWork();
    std::span<LeafWork> Works() { return {works.data(), work_count}; }
    std::span<const Pair> FreshOf(const LeafWork& work) const {
      return {fresh.data() + work.first_fresh, work.fresh_count};
    }
    std::span<LeafWork> WorksOf(const NodeTurn& turn) {
      return {works.data() + turn.first_work, turn.work_count};
    }
  };

  // One operation on its way through Write.
  struct PendingOp {
    const WriteOp* op;
    WriteResult* result;
    Key key;
    // From here on set where the operation comes to it.
    StagedPair<C> staged;  // of a delete: the pair that its tombstone says
    bool tombstone;
    bool apply;
    uint64_t sequence;
    uint32_t log;
    // Of a group, as of the round in hand.
    uint8_t leaf;       // of its node, whose range has the key
    int8_t buffered;    // the pair of its key in the Buffer Part, or -1
    bool done = false;  // the round takes it
  };
  // Of a group that need not be atomic: indices of its operations, ascending.
  struct Chunks {
    std::vector<uint32_t> chunk;   // that share the next fence
    std::vector<uint32_t> window;  // of which the chunks are taken
    std::vector<PendingOp> pending;
  };
  // A pair that an old log has, and that may still be buffered.
  struct OldPair {
    Key key;
    uint32_t log;
  };
  // Per worker slot: what keeps the hot path free of shared state and of allocation.
  struct alignas(64) Worker {
    SpareSpace spares;
    Round round;
    LeafWork merge;
    std::vector<uint64_t> unlinked;  // value words of pairs that the flushes in hand remove
    RetiredRecords retired;
    std::vector<uint32_t> order;  // of a group, by key; of those that are to come
    FlushPlan plan;               // scratch
    Chunks chunks;
    // Of entries that a flush has made superfluous, to be let go behind the next lock: a shared
    // counter right behind the flush's fence would wait for it, and all that follows.
    std::vector<uint32_t> drained_logs;
    // The old log that the thread is emptying, how many of its entries it has looked at, and the
    // pairs that it has found to drain; their keys (codecs with records).
    PartitionedVersionLog::OldLog emptied;
    unsigned emptied_entries = 0;
    std::vector<OldPair> old_pairs;
    std::vector<std::string> old_keys;
    // Keys of nodes that may be merged: where they begin. Those whose locks were busy stay.
    std::vector<std::string> sparse_nodes;
    ThreadCounts<WorkerCounters::kCount> counters;
  };

  // Where a search ended; the lock proves whether it still holds.
  struct Seen {
    Node* node = nullptr;
    uint64_t snapshot = 0;
  };
  // The nodes that a Write holds, ascending, and whether its log entries are durable.
  struct WriteContext {
    explicit WriteContext(Worker& w) : worker(w) {}
    Worker& worker;
    absl::InlinedVector<Node*, kMaxSplit> locked;
    // Of a lone key, from before its lock was taken: its place, and what to flush first.
    typename Node::Position position;
    FlushPlan plan;
    bool searched = false;
    bool plan_ready = false;
    bool fenced = false;
    bool drains_own = false;  // the leaf splits at once: else nothing could drain it later
    pmem::Reserve reserve = pmem::Reserve::kUse;  // for the leaves of splits
    size_t kept_leaves = 0;  // spare ones that only a node of a single leaf may take
    // Recovery: a leaf splits only where splitting its node does not make room. So it needs no leaf
    // that was not at hand before the crash (README, Recovery).
    bool replaying = false;
    bool stuck = false;  // no leaf, where nothing else makes room
    Node* Covering(const Key& key) const;
  };

  LodgeTree(const EngineContext& context, unsigned log_entries);

  // write.cc
  Worker& CurrentWorker() { return workers_.Current(); }
  Outcome WriteOne(const WriteOp& op, WriteResult* result, const WriteOptions& options);
  // Tries again as long as the pool is full and something comes free, a few times.
  static constexpr unsigned kMostReclaims = 8;
  template <class Try>
  Outcome TryToFit(const Try& attempt) {
    Outcome outcome = attempt();
    for (unsigned i = 0; outcome == Outcome::kPoolFull && i < kMostReclaims && ReclaimSpace();
         ++i) {
      outcome = attempt();
    }
    return outcome;
  }
  bool PutIntoBuffer(const WriteOp& op, const Key& key, const WriteOptions& options, Seen seen);
  Outcome WriteGroup(std::span<PendingOp> group, const WriteOptions& options, Seen seen = {});
  uint32_t AppendAndApply(WriteContext& context, std::span<PendingOp> group,
                          const WriteOptions& options);
  uint32_t AppendAndApplyEach(WriteContext& context, std::span<PendingOp> group,
                              const WriteOptions& options);
  bool EvaluateAll(WriteContext& context, std::span<PendingOp> group, const WriteOptions& options);
  void TakeChunk(std::span<const WriteOp> ops, Worker& worker);
  void WriteChunk(std::span<const WriteOp> ops, std::span<WriteResult> results,
                  const WriteOptions& options, Worker& worker);
  Outcome WriteChunks(std::span<const WriteOp> ops, std::span<WriteResult> results,
                      const WriteOptions& options);
  Outcome WriteAtomic(std::span<const WriteOp> ops, std::span<WriteResult> results,
                      const WriteOptions& options);
  Outcome Prepare(const WriteOp& op, WriteResult* result, PendingOp* pending);
  Outcome Stage(const WriteOp& op, const Key& key, WriteResult* result, PendingOp* pending);
  Outcome MakePair(const WriteOp& op, PendingOp* pending);
  Outcome AbortAll(std::span<PendingOp> group, std::span<WriteResult> results);
  bool MakeRoom(std::span<const PendingOp> group, Worker& worker, const WriteOptions& options);
  bool AdmitGroup(WriteContext& context, std::span<const PendingOp> group);
  size_t PendingSplits(const Node* node) const;
  bool AdmitOne(WriteContext& context, const PendingOp& pending);
  bool AdmitWithoutLeaf(WriteContext& context, const PendingOp& pending);
  void LockOne(WriteContext& context, const Key& key, Seen seen = {});
  static void SortByKey(std::span<const PendingOp> group, std::span<uint32_t> order);
  void LockMany(WriteContext& context, std::span<PendingOp> group);
  void UnlockAll(WriteContext& context);
  Outcome Evaluate(const Node* node, PendingOp& pending, uint64_t now) const;
  CurrentPair FindCurrent(const Node* node, const Key& key, uint64_t now) const;
  uint32_t AppendToLog(std::span<PendingOp> group, const WriteOptions& options);
  unsigned BeginPart(unsigned entries);
  uint32_t FinishEntry(PendingOp& pending) const;
  void Apply(WriteContext& context, PendingOp& pending);
  void Supersede(WriteContext& context, Node* node, unsigned at, PendingOp& pending);
  bool LosesRecord(const Node* node, unsigned at, const PendingOp& pending) const;
  void InsertBuffered(Node* node, unsigned leaf, const PendingOp& pending);
  void EndAppend();
  void FenceLog();
  void EnsureFenced(WriteContext& context);
  void Discard(PendingOp& pending);
  void FinishWrite(Worker& worker);
  void RetireRecord(Worker& worker, uint64_t value_word);
  int BufferedIndex(const Node* node, const Key& key, uint32_t hits) const;

  // leaf_count_flush.cc
  unsigned MaxIndex() const { return parameters_.node_slots - 1; }
  bool NeedsFlush(const Node* node, unsigned leaf) const;
  bool Crowded(const Node* node, unsigned leaf) const;
  void ChooseTargets(const Node* node, unsigned leaf, FlushPlan* plan) const;
  bool AddTarget(const Node* node, unsigned leaf, FlushPlan* plan) const;
  [[noreturn]] static void DieWithoutLeaf();
  Node* MakeBufferRoom(WriteContext& context, Node* node, PendingOp& pending);
  void FitPlan(WriteContext& context, const Node* node);
  Node* FlushPlanned(WriteContext& context, Node* node, const Key& key, uint64_t watermark);
  Node* FlushWhereRoom(WriteContext& context, Node* node, const Key& key, uint64_t watermark);
  Node* FlushOrSplit(WriteContext& context, Node* node, const Key& key, uint64_t watermark);
  bool Splits(const Node* node, const typename FlushPlan::Target& target) const;
  bool Fits(const Node* node, unsigned leaf, const Key& key) const;
  unsigned PairsAfter(const Node* node, const typename FlushPlan::Target& target,
                      unsigned more) const;
  void DropSplits(const Node* node, FlushPlan* plan) const;
  void Flush(WriteContext& context, Node* node, uint64_t watermark);
  void StageTurn(Worker& worker, NodeTurn& turn, std::span<PendingOp> group);
  void FenceRound(WriteContext& context);
  void FinishTurn(Worker& worker, const NodeTurn& turn);
  void RetireUnlinked(Worker& worker);
  void BeginLeaf(const Node* node, unsigned leaf, uint32_t group, uint64_t watermark,
                 LeafWork* work) const;
  void SortIntoLeaf(Worker& worker, const Node* node, uint32_t superseded, LeafWork& work);
  void SortDirect(Worker& worker, const NodeTurn& turn, std::span<PendingOp> group, LeafWork& work);
  void SortPair(Worker& worker, const Node* node, Pair pair, bool tombstone, bool in_place,
                LeafWork& work);
  void StageLeaf(Worker& worker, NodeTurn& turn, LeafWork& work);
  void WriteFresh(std::span<const Pair> fresh, LeafWork& work, uint32_t free_slots);
  void WriteUpdates(LeafWork& work);
  void StoreFingerprints(LeafWork& work);
  void FlushLines(LeafWork& work);
  enum class Pass { kFirst, kSecond };
  void CommitAndPublish(Worker& worker);
  void CommitLeaves(std::span<LeafWork> works, Pass pass);
  void StoreCommit(LeafWork& work, Pass pass);
  void SecondCommits(Worker& worker);
  void CommitSecond(Round& round);
  void PublishFlush(Round& round, const NodeTurn& turn);
  void PublishLeaf(Node* node, const LeafWork& work) const;
  void ReleaseDrainedLogs(Worker& worker);

  // group_flush.cc
  bool SharesFences(const WriteContext& context, std::span<const PendingOp> group) const;
  uint32_t WriteInRounds(WriteContext& context, std::span<PendingOp> group,
                         const WriteOptions& options);
  void PlanRound(WriteContext& context, std::span<PendingOp> group);
  bool PlanTurn(WriteContext& context, std::span<PendingOp> group, NodeTurn turn);
  size_t NewLeavesAllowed(const Worker& worker, size_t ops) const;
  bool ChooseLeaves(Worker& worker, std::span<const PendingOp> group, std::span<const uint32_t> ops,
                    NodeTurn* turn) const;
  void StageRound(WriteContext& context, std::span<PendingOp> group);
  void PublishTurn(WriteContext& context, std::span<PendingOp> group, const NodeTurn& turn);
  uint32_t SendDirect(Worker& worker, NodeTurn& turn, std::span<PendingOp> group);

  // leaf_merge.cc
  bool AreSparse(unsigned left_count, unsigned right_count) const;
  void MergeSparseLeaves(Worker& worker, Node* node, uint64_t watermark);
  bool MergeIntoLeftLeaf(Worker& worker, Node* node, unsigned right, uint64_t watermark);
  bool CommitMerge(Worker& worker, const Node* node, unsigned left, const Node* other,
                   unsigned right, uint64_t watermark);
  void FreeLeaf(Worker& worker, pmem::Offset offset);
  bool IsEmptied(const Node* node, unsigned leaf) const;
  void DrainEmptied(WriteContext& context, std::span<const PendingOp> group);
  bool IsSparse(const Node* node) const { return node->index_count <= parameters_.node_slots / 4; }
  void NoteIfSparse(Worker& worker, const Node* node);
  void MergeSparseNodes(Worker& worker);
  Attempt MergeWithNeighbour(Worker& worker, const Key& key);
  Attempt MergeWith(WriteContext& context, const Key& key, bool into_left);
  Node* TryLock(WriteContext& context, const Key& key, typename Inner::Seek seek);
  Attempt MergeNodes(WriteContext& context, Node* left, Node* right);
  bool CanJoin(const Node* left, const Node* right) const;
  bool CanEmpty(const Node* left, const Node* right) const;
  void FreeNode(WriteContext& context, Node* node);

  // log_reclaim.cc
  void EmptyOldLogs(size_t ops);
  bool MakeLogRoom(pmem::Reserve reserve, absl::FunctionRef<bool()> enough);
  unsigned GatherOldPairs(Worker& worker, unsigned entries);
  bool NextOldEntry(Worker& worker, ReadEntry* entry);
  bool KeyOfOldEntry(Worker& worker, const ReadEntry& entry, Key* key);
  bool MayBuffer(const OldPair& pair) const;
  void DrainOldPairs(Worker& worker);
  void PlanOldPairs(WriteContext& context);
  void AddOldPair(WriteContext& context, const Node* node, const OldPair& pair, size_t splits);
  // Of a node that may be left of the key's.
  static bool Covers(const Node* node, const Key& key) {
    return !node->bounded || C::CompareToKey(node->high, key) > 0;
  }

  // space_reclaim.cc
  using WithDeletes = HoldingNodes<Node, &Node::next_with_deletes, 1>;
  using WithPuts = HoldingNodes<Node, &Node::next_with_puts, 2>;
  bool ReclaimSpace();
  bool DrainHoldingNodes(Worker& worker);
  bool DrainHolding(Worker& worker, Node* node, void (*taken)(Node*));
  void ChooseHolding(WriteContext& context, const Node* node);
  bool HoldsSpace(const Node* node, const typename FlushPlan::Target& target) const;
  void NoteHolding(Node* node);
  void FlushAllBuffers(unsigned threads);
  void FlushBuffers(std::string low, const std::string* end);

  // leaf_split.cc
  unsigned LeavesFor(size_t pairs) const;
  void StageLeafSplit(Worker& worker, NodeTurn& turn, LeafWork& work);
  Division Divide(Worker& worker, NodeTurn& turn, const LeafWork& work);
  static bool TakeFurtherLeaf(Worker& worker, NodeTurn& turn);
  void CollectOrigins(Round& round, const LeafWork& work) const;
  std::span<Origin> UpperPart(const Node* node, unsigned leaf, std::span<Origin> pairs,
                              Division division, Separator* separator);
  static bool Divides(const Node* node, unsigned leaf, Separator separator);
  void WriteLeafAside(const LeafWork& work, pmem::Offset space);
  void WriteRightLeaf(Worker& worker, const LeafWork& work, Separator separator, uint64_t next);
  FenceWords StageFence(Worker& worker, Separator separator);

  // hotness_aware_split.cc
  Node* SplitNode(WriteContext& context, Node* node, const Key& key);
  unsigned NodesAfterSplit(const Node* node, unsigned free_slots, Worker& worker) const;
  Node* NewNode();
  // For recovery: one after the other in memory.
  void MakeNodes(std::span<Node*> nodes);
  uint32_t Tick() const { return static_cast<uint32_t>(pool_.PeekSequence() >> 10); }

  // For a walk over the nodes. Separators ascend, but for those of keys that were damaged.
  static bool GoesOnBehind(const Node* node, const Key& low) {
    return node->bounded && C::CompareToKey(node->high, low) > 0;
  }

  // lodgetree.cc
  uint64_t LogLimit() const;
  int64_t KeysOf(const Node& node) const;
  // Calls visit(node) for the last-level nodes from the one that covers the key `low` to the right,
  // each locked, until it says false.
  template <class Visit>
  void ForEachNodeFrom(std::string low, Visit visit) {
    for (bool more = true; more;) {
      WriteContext context(CurrentWorker());
      const Key key = C::MakeKey(low);
      LockOne(context, key);
      const Node* node = context.locked.front();
      more = visit(*node) && GoesOnBehind(node, key);
      if (more) low = C::TextOf(node->high);
      UnlockAll(context);
    }
  }

  // read.cc
  friend class PointReads<C, LodgeTree>;
  struct Lookup : KeyLookup<C> {
    const Node* node;
    uint64_t snapshot;
    unsigned leaf;
    uint32_t hits;
  };
  void FetchMirror(Lookup* lookup) const;
  void FetchSlots(const Lookup& lookup) const;
  void FetchRecords(const Lookup& lookup) const requires C::kRecords;
  void FetchLookups(std::span<Lookup> lookups) const;
  bool FinishLookup(const Lookup& lookup, uint64_t* value_word) const;
  // Optimistic: the value word of the key's live pair.
  bool FindValueWord(const Key& key, uint64_t* value_word) const;
  bool FindInNode(const Node* node, uint64_t snapshot, const Key& key, bool* found,
                  uint64_t* value_word) const;
  int FindInLeaf(const Node* node, unsigned leaf, const Key& key) const;
  int FindPairInLeaf(const Node* node, unsigned leaf, Pair pair) const;
  media::Leaf* LeafAt(const Node* node, unsigned leaf) const {
    return pool_.At<media::Leaf>(node->values[leaf]);
  }
  // The same of a node that is changing, where it may be none: to be fetched, not followed.
  uintptr_t LeafAddress(const Node* node, unsigned leaf) const {
    return reinterpret_cast<uintptr_t>(pool_.base()) + node->values[leaf];
  }
  static Pair SlotPair(const media::Leaf* leaf, unsigned slot) {
    return {leaf->slots[slot].key.LoadRelaxed(), leaf->slots[slot].value.LoadRelaxed()};
  }

  // scan.cc
  class Cursor;

  // recovery.cc
  class Recovery;

  // check.cc
  class Checker;

  pmem::Pool& pool_;
  pmem::Medium& medium_;
  const Parameters parameters_;
  const unsigned threads_;  // for what is done before the first call and behind the last one
  // With more leaves than this no group can be too large for a split.
  const unsigned crowded_below_;
  pmem::UnitArena leaves_;
  pmem::RecordSlab slab_;
  DramArena dram_;
  C codec_;
  const StoredValues<C> values_;
  SeparatorTexts texts_;
  Inner tree_;
  PartitionedVersionLog log_;
  AppliedEntry applied_;
  FenceHorizon horizon_;  // codecs with records
  LongestKey longest_key_;
  const SpareSource spare_source_{pool_, leaves_, slab_, longest_key_, C::kRecords};
  Reclaimer reclaimer_;
  std::atomic<uint64_t> node_count_{0};
  std::mutex free_nodes_mutex_;
  std::vector<Node*> free_nodes_;  // merged into others; they keep their versions
  WithDeletes with_deletes_;
  WithPuts with_puts_;        // codecs with records
  std::mutex reclaim_mutex_;  // one thread at a time makes room in a full pool
  pmem::FullMemo logs_stuck_;
  pmem::PerWorker<Worker> workers_;
};

}  // namespace lodgekv::lodgetree
