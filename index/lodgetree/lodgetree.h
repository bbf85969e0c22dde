// LodgeTree (ICDE'25 style last-level surrogate buffer, see README.md): the engine.
//
// A Put: WriteOne (write_one.cc) finds the last-level node; a LoneWrite (lone_write.h) stages the
// record, locks the node, appends to the partitioned version log, fences, and puts the pair into
// the node's Buffer Part. If the node is full, a NodeWriter (node_writer.h) lets the same fence
// cover a drain of some leaves (drain_plan.h chooses them, drain_round.h drains them, leaf_writer.h
// writes them), which may
// split a leaf (leaf_split.h); a node with too many leaves splits by its hotness
// (hotness_aware_split.h). Where there is more to decide, as by a condition, for a key that is
// buffered or in a pool that is nearly full, a GroupWrite (group_write.h) does all this; and for
// groups of writes, whose drains share their fences (group_rounds.cc). Deletes leave sparse leaves
// and nodes, which merge (leaf_merge.h, node_merge.h). Space is reclaimed in the log
// (log_reclaim.h) and in a full pool (space_reclaim.h). All of them work on one TreeParts
// (tree_parts.h).
//
// Locks: a writer holds the lock of the last-level node across its fences. Sequence numbers are
// taken under that lock, so in each node the order of numbers is the order of operations. Several
// nodes are locked from left to right; parents are locked after children; nothing else is held
// while waiting.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/engine_info.h"
#include "index/lodgetree/node_writer.h"
#include "index/lodgetree/tree_parts.h"
#include "index/node/point_reads.h"

namespace lodgekv::lodgetree {

template <class C>
class LodgeTree final : public Engine {
 public:
  using Key = typename C::Key;
  using Separator = typename C::Separator;
  using Node = LastLevelNode<C>;
  using Inner = InnerTree<C, Node>;

  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineContext& context);
  static absl::StatusOr<std::unique_ptr<Engine>> Recover(const EngineContext& context,
                                                         RecoveryReport* report);
  ~LodgeTree() override { parts_.background.Stop(); }

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
  RecoveryState GetRecoveryState() const override;
  absl::Status Close() override;
  void Abandon() override;

 private:
  LodgeTree(const EngineContext& context, unsigned log_entries) : parts_(context, log_entries) {}

  // write_one.cc
  Outcome WriteOne(const WriteOp& op, WriteResult* result, const WriteOptions& options);
  template <class Form>
  Outcome WriteOneBy(const WriteOp& op, WriteResult* result, const WriteOptions& options);
  [[gnu::noinline]] Outcome WriteAsGroup(const WriteOp& op, const Key& key, SeenNode<C> seen,
                                         WriteResult* result, const WriteOptions& options);
  // For so many operations, where old logs have to be emptied.
  [[gnu::noinline, gnu::cold]] void PayLogs(size_t ops, Outcome outcome);
  void FetchCurrent(const WriteOp& op, const Key& key, const Node* node) const;
  Outcome WriteGroup(std::span<PendingOp<C>> group, const WriteOptions& options,
                     SeenNode<C> seen = {});
  Outcome Stage(PendingOp<C>* pending);

  // write.cc
  void TakeChunk(const KeyOrder<C>& order, std::span<const WriteOp> ops,
                 std::span<WriteResult> results, Chunks<C>& chunks);
  void ShrinkChunk(std::span<const WriteOp> ops, Chunks<C>& chunks);
  void WriteChunk(const WriteOptions& options, std::vector<PendingOp<C>>& chunk);
  Outcome WriteChunks(std::span<const WriteOp> ops, std::span<WriteResult> results,
                      const WriteOptions& options);
  Outcome WriteAtomic(std::span<const WriteOp> ops, std::span<WriteResult> results,
                      const WriteOptions& options);
  Outcome StageWithRoom(PendingOp<C>* pending);
  Outcome Prepare(PendingOp<C>* pending);
  Outcome AbortAll(std::span<PendingOp<C>> group, std::span<WriteResult> results);

  // read.cc; `Form`: node/search_form.h
  template <class, class, class>
  friend class lodgekv::PointReads;
  struct Lookup : KeyLookup<C> {
    const Node* node;
    uint64_t snapshot;
    unsigned leaf;
    uint32_t hits;
  };
  template <class Form>
  void FetchMirror(Lookup* lookup) const;
  void FetchSlots(const Lookup& lookup) const;
  void FetchRecords(const Lookup& lookup) const requires C::kRecords;
  template <class Form>
  void FetchLookups(std::span<Lookup> lookups) const;
  template <class Form>
  bool FinishLookup(const Lookup& lookup, uint64_t* value_word) const;
  // Optimistic: finds the value word of the key's live pair.
  template <class Form>
  bool FindValueWord(const Key& key, uint64_t* value_word) const;
  // (A template, so that codecs without records have none.)
  template <class Form>
  bool FindMirrored(const Node* node, uint64_t snapshot, unsigned leaf, const Key& key,
                    uint32_t* slots, bool* valid, uint64_t* value_word) const requires C::kRecords;
  template <class Form>
  bool FindInNode(const Node* node, uint64_t snapshot, const Key& key, bool* found,
                  uint64_t* value_word) const;

  // scan.cc
  class Cursor;

  // recovery.h
  class Recovery;

  // check.cc
  class Checker;

  TreeParts<C> parts_;
};

}  // namespace lodgekv::lodgetree
