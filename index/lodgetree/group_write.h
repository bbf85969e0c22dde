// One group of writes that share a fence, or a single write: from its locks to its results.
//
//   group_write.cc      the steps of the group; conditions
//   group_locks.cc      finds and locks its nodes
//   group_admission.cc  allocates what it may need before its first durable step
//   group_log.cc        log entries
//   group_plan.cc       which leaves its nodes drain so that its operations find room
//   group_rounds.cc     the drains of a group share their fences
//
// Invariants
//  1. Nothing durable is done before the group is admitted: a failed group has changed nothing.
//  2. Sequence numbers are taken under the locks of all nodes of the group, so in each node the
//     order of numbers is the order of operations. Within the group it is the order of keys.
//  3. What is in the log is applied before the locks are released.
//
// Used by one thread, for one call of Run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "index/lodgetree/node_writer.h"
#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

template <class C>
class GroupWrite {
 public:
  using Key = typename C::Key;
  using Node = LastLevelNode<C>;

  // `group`: by key ascending.
  GroupWrite(TreeParts<C>& parts, Worker<C>& worker, std::span<PendingOp<C>> group,
             const WriteOptions& options)
      : parts_(parts), worker_(worker), group_(group), options_(options), nodes_(parts, worker) {}

  // Returns the first outcome that is not a success. `seen`: where the search of a single key
  // ended.
  Outcome Run(SeenNode<C> seen = {});

 private:
  using Op = PendingOp<C>;
  static constexpr size_t kUsual = 256;  // operations of a group; a larger one allocates
  using Turn = NodeTurn<C>;

  // group_write.cc
  Outcome FailAll(Outcome outcome);
  bool LockAndAdmit(SeenNode<C> seen);
  bool EvaluateAll();
  Outcome Evaluate(Op& pending) const;
  CurrentPair FindCurrent(const Op& pending) const;
  uint32_t AppendAndApply();
  uint32_t AppendAndApplyEach();

  // group_locks.cc
  static bool NeedsCurrent(const Op& pending) {
    return pending.op->kind == WriteKind::kDelete || pending.op->condition != Condition::kNone;
  }
  void LockMany();
  void SeekAll();
  template <class Form>
  bool SeekNodes();
  void LockNodeOf(Op& pending);
  template <class Form>
  void PlaceBy(const Node* node, Op& pending) const;
  void Place(const Node* node, Op& pending) const;

  // group_admission.cc
  bool HasPuts() const;
  bool MakeRoom();
  bool AdmitGroup();
  bool AdmitOne(const Op& pending);
  bool AdmitWithoutLeaf(const Op& pending);

  // group_log.cc
  // Number of log entries that do not belong to an operation.
  unsigned ExtraEntries() const { return options_.applied_index.has_value() ? 1 : 0; }
  void FinishEntries();
  uint32_t AppendToLog();
  unsigned BeginPart(unsigned entries);
  uint32_t FinishEntry(Op& pending) const;

  // group_plan.cc
  void PlanRound();
  bool PlanOne(Node* node, size_t at);
  bool PlanTurn(Turn turn);
  void Locate(Node* node, Op& pending) const;
  bool HasRoom(const Node* node, size_t ops) const;
  size_t NewLeavesAllowed(size_t ops) const;
  uint32_t TargetsOf(const Op& pending, const Node* node) const;
  bool ChooseForOne(const Op& pending, Turn* turn) const;
  bool ChooseLeaves(std::span<const uint32_t> ops, Turn* turn) const;
  bool Accept(uint32_t leaves, size_t new_leaves, unsigned used, size_t ops, Turn* turn) const;

  // group_rounds.cc
  bool SharesFences() const;
  uint32_t WriteInRounds();
  void FetchRound() const;
  void StageRound();
  void Buffer(Node* node, const Op& pending);
  void SplitIfFull(Node* node, const Key& key);
  void PublishTurn(const Turn& turn);
  void DrainEmptied();

  TreeParts<C>& parts_;
  Worker<C>& worker_;
  const std::span<Op> group_;
  const WriteOptions& options_;
  NodeWriter<C> nodes_;
  // In a round: operations that are only buffered, each the only one of its node.
  absl::InlinedVector<uint32_t, kUsual> only_buffered_;
  unsigned entries_ = 0;           // of the log
  uint64_t applied_sequence_ = 0;  // of the entry of the applied index
};

}  // namespace lodgekv::lodgetree
