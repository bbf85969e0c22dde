// Keeps the log short: cold pairs that pin old logs are drained when the live logs approach their
// limit, a few with each write (README, The log's limit). Called without locks.
//
// Invariant: the worker's old log is examined from its first entry to its last, over as many calls
// as needed; a pair that is still buffered is drained, or stays if no leaf is free.
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

  // Call after a write of `ops` operations that has opened logs while live logs were near their
  // limit. Examines as many entries of old logs as the write has appended, or twice as many, and
  // continues there with the next write. If a fence is a sync, the thread examines all that it owes
  // at once, which is once in L puts.
  void EmptyOldLogs(size_t ops);
  // For when no log is free: drains entries of old logs from the buffers until `enough`. A put
  // gives up at once if another put has tried in vain and no leaf was freed since: the buffered
  // pairs wait for leaves.
  bool MakeLogRoom(pmem::ReservePolicy policy, absl::FunctionRef<bool()> enough);

 private:
  unsigned GatherOldPairs(unsigned entries);
  bool NextOldEntry(FoundEntry* entry);
  bool KeyOfOldEntry(const FoundEntry& entry, Key* key);
  bool MayBuffer(const OldPair& pair) const;
  void DrainOldPairs();
  void PlanOldPairs(NodeWriter<C>& nodes);
  void AddOldPair(const Node* node, const OldPair& pair, size_t splits, DrainPlan* plan);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
