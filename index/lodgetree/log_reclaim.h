// Keeping the log short: cold pairs that pin old logs are drained when the live logs come near
// their limit, a few with each write (README, The log's limit). Called with no lock held.
//
// Invariant: the worker's old log is looked at from its first entry to its last, over as many calls
// as that takes; a pair that is still buffered is drained, or its leaf is not to be had and it
// stays.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "index/lodgetree/node_writer.h"
#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

template <class C>
class LogReclaimer {
 public:
  using Key = typename C::Key;
  using Node = LastLevelNode<C>;
  using OldPair = typename OldLogWork<C>::OldPair;

  LogReclaimer(TreeParts<C>& parts, Worker<C>& worker) : parts_(parts), worker_(worker) {}

  // Behind a write of `ops` operations that has opened logs while live logs were near their limit.
  // Looks at as many entries of old logs as it has appended, or twice as many, and goes on with the
  // next write where it ended with this one. Where a fence is a sync, the thread looks at all that
  // it owes at once, which is once in L puts.
  void EmptyOldLogs(size_t ops);
  // Where no log can be had: drains what some entries of old ones have left in buffers, until
  // `enough`. A put gives up at once when its like has tried in vain, and no leaf has come free
  // since: what waits in the buffers waits for leaves.
  bool MakeLogRoom(pmem::ReservePolicy policy, absl::FunctionRef<bool()> enough);

 private:
  unsigned GatherOldPairs(unsigned entries);
  bool NextOldEntry(ReadEntry* entry);
  bool KeyOfOldEntry(const ReadEntry& entry, Key* key);
  bool MayBuffer(const OldPair& pair) const;
  void DrainOldPairs();
  void PlanOldPairs(NodeWriter<C>& nodes);
  void AddOldPair(const Node* node, const OldPair& pair, size_t splits, DrainPlan* plan);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
