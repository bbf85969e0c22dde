// LB+-Tree (PVLDB 13(7), 2020; see README.md): the engine.
//
// The way of a Put: Write (write.cc) finds the leaf, takes its lock, and inserts by entry moving
// (entry_moving.cc), which makes one 8-byte store of the leaf's header count everything
// (NAW, LB+-Tree Definition 2.1). A full leaf splits without a log (logless_split.cc). A delete
// clears a bit, or unlinks its leaf (delete.cc). Several operations share fences
// (group_commit.cc, group_split.cc). Atomic batches leave an intent first (atomic_batch.cc).
//
// Locks are in DRAM, striped (node/striped_locks.h): a writer holds its leaf's over its fences.
// What it commits readers could see at once. Where a fence is an instruction they wait from the
// commit's store until its fence (VersionLock::BeginPublish); where it waits for a disk they see
// the word's old value meanwhile (node/pending_word.h). Parents are locked after leaves; a second
// leaf is only tried.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/engine_info.h"
#include "index/lbtree/distributed_header.h"
#include "index/lbtree/layout.h"
#include "index/node/batch_intent.h"
#include "index/node/codec.h"
#include "index/node/dram_arena.h"
#include "index/node/inner_tree.h"
#include "index/node/key_locks.h"
#include "index/node/point_reads.h"
#include "index/node/prefetch.h"
#include "index/node/reclaimer.h"
#include "index/node/retired_records.h"
#include "index/node/staged_pair.h"
#include "index/node/stored_values.h"
#include "index/node/striped_locks.h"
#include "index/node/thread_counts.h"
#include "index/pmem/per_worker.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv::lbtree {

// The engine's options; see lbtree.cc for bounds and documentation.
struct Parameters {
  unsigned leaf_slots;  // of a block that are used
  bool entry_moving;
  bool fingerprints;
  bool logless_split;
  bool unlink_leaves;

  explicit Parameters(const OptionValues& options);
};

struct WorkerCounters {
  enum Name : unsigned {
    kOneLineInserts,
    kTwoLineInserts,
    kMovedEntries,
    kLeafSplits,
    kUpdates,
    kDeletes,
    kUnlinkedLeaves,
    kBatches,
    kGroups,
    kCount
  };
};

// How the inner tree reaches a leaf on the medium.
struct LeafAccess {
  static constexpr bool kFetchInnerNodes = true;  // of small leaves there are many
  const StripedLocks* locks;
  unsigned blocks;

  VersionLock& LockOf(const media::Block* leaf) const { return locks->Of(leaf); }
  // All lines of a small leaf: the medium reads 256 bytes at once anyway. Of a larger one those
  // with a header.
  void PrefetchForRead(const media::Block* leaf) const {
    const char* at = reinterpret_cast<const char*>(leaf);
    Prefetch(&locks->Of(leaf));
    const unsigned step = blocks == 1 ? 1 : kBlockLines - 1;
    for (unsigned b = 0; b < blocks; ++b, at += sizeof(media::Block)) {
      for (unsigned line = 0; line < kBlockLines; line += step) Prefetch(at + line * 64);
    }
  }
  void PrefetchForWrite(const media::Block* leaf) const { PrefetchForRead(leaf); }
};

template <class C>
class LbTree final : public Engine {
 public:
  using Codec = C;
  using Key = typename C::Key;
  using Separator = typename C::Separator;
  using Inner = InnerTree<C, media::Block, LeafAccess>;
  using Bounds = typename Inner::Bounds;
  using Attempt = typename Inner::Attempt;

  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineContext& context);
  static absl::StatusOr<std::unique_ptr<Engine>> Recover(const EngineContext& context,
                                                         RecoveryReport* report);
  static absl::StatusOr<std::unique_ptr<Engine>> BulkLoad(const EngineContext& context,
                                                          const lodgekv::BulkLoad& load);
  ~LbTree() override;

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
  // Per worker slot: what keeps the hot path free of shared state.
  struct alignas(64) Worker {
    std::vector<pmem::Offset> spare_leaves;  // for an atomic batch, which must not run out
    RetiredRecords retired;
    std::vector<uint64_t> replaced;  // value words that a group is going to replace
    // Keys whose leaf is empty, or whose inner nodes are sparse, and were busy.
    std::vector<std::string> emptied;
    ThreadCounts<WorkerCounters::kCount> counters;
  };
  // A slot of a leaf.
  struct Place {
    unsigned block = 0;
    int slot = -1;  // -1: the key is not there
    bool found() const { return slot >= 0; }
  };
  // A leaf whose lock is held, its lock, and the key's place in it.
  struct Locked {
    media::Block* leaf = nullptr;
    VersionLock* lock = nullptr;
    Place place;
  };
  // One operation on its way through Write.
  struct PendingOp {
    const WriteOp* op;
    WriteResult* result;
    Key key;
    StagedPair<C> staged;
    bool apply = false;
  };

  LbTree(const EngineContext& context, unsigned blocks);

  // write.cc
  Outcome WriteOne(const WriteOp& op, WriteResult* result, const WriteOptions& options);
  Outcome Stage(const WriteOp& op, WriteResult* result, PendingOp* pending);
  Outcome WriteStaged(PendingOp& pending, uint64_t now);
  Locked LockLeaf(const Key& key, bool of_batch) const;
  Outcome Evaluate(const Locked& locked, PendingOp& pending, uint64_t now) const;
  void FinishStaged(PendingOp& pending);
  Outcome Apply(Worker& worker, Locked& locked, const Key& key, Pair pair, bool remove);
  void Update(Worker& worker, const Locked& locked, Pair pair);
  static bool HasRecord(Pair pair) {
    if constexpr (C::kRecords) return C::IsRecord(pair.value);
    return false;
  }
  void FenceRecord(Pair pair);
  void RetireRecord(Worker& worker, uint64_t value_word);
  void FinishWrite(Worker& worker);
  bool ReclaimSpace();

  struct SplitWork;

  // group_commit.cc
  struct NewLeaf;
  struct GroupLeaf;
  struct Group;
  // What a pass does with an operation.
  enum class Joining : uint8_t {
    kJoined,  // it is in the group, or decided
    kLater,   // nothing was done: the next pass may take it
    kAlone    // nothing was done: it needs more than a group does
  };
  struct Members;
  static constexpr size_t kMostMembers = 256;
  Outcome WriteGroup(std::span<const WriteOp> ops, std::span<WriteResult> results,
                     const WriteOptions& options);
  void WriteInPasses(size_t count, bool of_batch, const Members& members);
  Joining Join(Group& group, const WriteOp& op, WriteResult* result, uint64_t now);
  Joining JoinIntended(Group& group, const IntendedOp& op);
  bool IsLarge(const WriteOp& op) const;
  GroupLeaf* JoinLeaf(Group& group, const Key& key) const;
  GroupLeaf* Hold(Group& group, media::Block* leaf, uint64_t snapshot, const Key& key) const;
  GroupLeaf* LeafInGroup(Group& group, GroupLeaf& held, const Key& key) const;
  void BeginGroupLeaf(const Locked& locked, const Key& key, GroupLeaf* leaf) const;
  Place FindPlaceInGroup(const GroupLeaf& leaf, const Key& key) const;
  Joining JoinDelete(Group& group, GroupLeaf& leaf);
  void JoinPut(Group& group, GroupLeaf& leaf, Pair pair);
  void ChangeInSlot(Group& group, GroupLeaf& leaf, Pair pair);
  void DropInGroup(Worker& worker, GroupLeaf& leaf);
  bool IsFull(const Group& group) const;
  void CommitGroup(Group& group);
  void FlushGroup(Group& group);
  void CommitLeaves(Group& group);
  void CommitTogether(std::span<GroupLeaf*> leaves);
  void LetGo(Group& group);

  // group_split.cc
  bool HasRoom(const GroupLeaf& leaf) const;
  Joining MakeRoom(Group& group, const Key& key, GroupLeaf** leaf);
  Joining SplitInGroup(Group& group, const Key& key, GroupLeaf& leaf);
  Bounds BoundsInGroup(const GroupLeaf& leaf, const Key& key) const;
  void StageHeldLeaf(SplitWork* work, NewLeaf* right, GroupLeaf* leaf);
  void StageNewLeaf(const SplitWork& work, NewLeaf* right, GroupLeaf* leaf);
  void StoreNewHeader(const GroupLeaf& leaf);
  void PublishNewLeaves(GroupLeaf& leaf);

  // entry_moving.cc
  bool Insert(Worker& worker, const Locked& locked, Pair pair);
  void InsertIntoBlock(Worker& worker, const Locked& locked, unsigned block, Pair pair);
  unsigned StageInsert(Worker& worker, media::Block& block, unsigned header_line, Pair pair,
                       uint32_t committed, bool move, Header* header);
  static void CountInsert(Worker& worker, bool beside_header);
  unsigned ChooseSlot(uint32_t free_slots, unsigned header_line) const;
  unsigned MoveEntries(media::Block& block, Header* header, unsigned header_line, uint32_t to);
  void StoreSlot(media::Block& block, unsigned slot, Pair pair);
  void CommitHeader(const Locked& locked, media::Word* words, const Header& header);
  // Around a commit, which is one store: readers go on with the old word, or wait, until it is
  // durable; in between Publish may change what is in DRAM.
  void BeginCommit(const Locked& locked, const media::Word& word) const;
  void BeginPublish(const Locked& locked) const;
  void EndPublish(const Locked& locked) const;
  uint32_t UsableSlots() const { return (uint32_t{1} << parameters_.leaf_slots) - 1; }

  // logless_split.cc
  // A leaf that is written as a whole.
  struct LeafImage {
    alignas(pmem::kLineBytes) uint64_t words[kMaxBlocks * sizeof(media::Block) / sizeof(uint64_t)];
    uint32_t lines[kMaxBlocks];  // of each block those that hold something

    // visit(where in the leaf, what) for each of these.
    template <class Visitor>
    void ForEachLine(unsigned blocks, Visitor visit) const {
      for (unsigned line = 0; line < blocks * kBlockLines; ++line) {
        if ((lines[line / kBlockLines] >> line % kBlockLines & 1) == 0) continue;
        const size_t at = line * pmem::kLineBytes;
        visit(at, reinterpret_cast<const char*>(words) + at);
      }
    }
  };
  void FillImage(std::span<const Pair> pairs, uint64_t sibling, LeafImage* image) const;
  Outcome Split(Worker& worker, Locked& locked, const Key& key, Pair pair);
  void LoadHeaders(SplitWork* work) const;
  bool Divide(const Key& key, const Bounds& bounds, SplitWork* work);
  bool ChooseBorder(const Key& key, const Bounds& bounds, SplitWork* work);
  Bounds BoundsOf(const Key& key) const;
  static bool Divides(const Bounds& bounds, Separator separator);
  void StoreRightLeaf(const SplitWork& work);
  uint32_t StoreLeftLeaf(SplitWork* work);
  uint32_t LinesInUse(const media::Block* leaf) const;
  void FlushLines(const media::Block* leaf, uint32_t lines);
  void StageAsInThePaper(SplitWork* work, Pair pair);
  void WriteLeafAside(const SplitWork& work);
  void CommitSplit(const Locked& locked, const Key& key, const SplitWork& work);
  pmem::Offset TakeLeaf(Worker& worker);

  // delete.cc
  void Remove(Worker& worker, const Locked& locked, const Key& key);
  media::Block* LeftNeighbour(const Key& key, uint64_t* snapshot) const;
  Attempt UnlinkLeaf(Worker& worker, const Locked& locked, const Key& key);
  void NoteEmptied(Worker& worker, const Key& key);
  void UnlinkEmptied(Worker& worker);
  bool UnlinkIfEmpty(Worker& worker, const Key& key);
  bool HoldsOnePair(const media::Block* leaf, unsigned block, const Header& header) const;

  // atomic_batch.cc
  Outcome WriteAtomic(std::span<const WriteOp> ops, std::span<WriteResult> results,
                      const WriteOptions& options);
  bool PrepareBatch(std::span<const WriteOp> ops, std::span<WriteResult> results,
                    std::span<PendingOp> batch);
  Outcome CommitBatch(std::span<PendingOp> batch, const WriteOptions& options);
  bool EvaluateBatch(std::span<PendingOp> batch, uint64_t now, std::vector<IntendedOp>* ops);
  Outcome AbortBatch(std::span<PendingOp> batch, std::span<WriteResult> results);
  Outcome ApplyIntended(std::span<const IntendedOp> ops);
  Outcome ApplyAlone(const IntendedOp& op);
  Key KeyOf(const IntendedOp& op, char (&scratch)[8]) const;
  bool EnsureSpareLeaves(Worker& worker, size_t count);
  void TrimSpareLeaves(Worker& worker);
  void StoreAppliedIndex(uint64_t index);

  // read.cc
  friend class PointReads<C, LbTree>;
  struct Lookup : KeyLookup<C> {
    const media::Block* leaf;
    uint64_t snapshot;
  };
  bool FindInLeaf(const media::Block* leaf, uint64_t snapshot, const Key& key, bool* found,
                  uint64_t* value_word) const;
  uint32_t Candidates(const LeafView& leaf, unsigned block, const Key& key) const;
  LeafView ViewOf(const media::Block* leaf) const {
    return {leaf, pending_ == nullptr ? nullptr : &pending_[locks_.IndexOf(leaf)]};
  }
  bool FindValueWord(const Key& key, uint64_t* value_word) const;
  void FetchRecords(const Lookup& lookup) const requires C::kRecords;
  void FetchLookups(std::span<Lookup> lookups) const;
  bool FinishLookup(const Lookup& lookup, uint64_t* value_word) const;
  Place FindPlace(const media::Block* leaf, const Key& key) const;

  // scan.cc
  class Cursor;

  // recovery.cc
  class Recovery;

  // bulk_load.cc
  class BulkLoader;

  // check.cc
  class Checker;

  // lbtree.cc
  // False ends the walk.
  using LeafVisitor = absl::FunctionRef<bool(const media::Block* leaf, const Bounds& bounds,
                                             const uint32_t* slots)>;
  void ForEachLeaf(std::string from, LeafVisitor visit) const;

  size_t leaf_bytes() const { return blocks_ * sizeof(media::Block); }
  media::Block* LeafAt(pmem::Offset offset) const { return pool_.At<media::Block>(offset); }

  pmem::Pool& pool_;
  pmem::Medium& medium_;
  const Parameters parameters_;
  const unsigned blocks_;  // m
  pmem::UnitArena leaves_;
  pmem::RecordSlab slab_;
  DramArena dram_;
  C codec_;
  const StoredValues<C> values_;
  SeparatorTexts texts_;
  const StripedLocks locks_;
  // Of each lock; null where a fence is an instruction: then readers wait for it.
  const std::unique_ptr<PendingWord[]> pending_;
  Inner tree_;
  KeyLocks key_locks_;
  BatchIntents intents_;
  Reclaimer reclaimer_;
  std::mutex applied_mutex_;
  pmem::Reserve leaf_reserve_ = pmem::Reserve::kKeep;  // from where splits take leaves
  pmem::PerWorker<Worker> workers_;
};

}  // namespace lodgekv::lbtree
