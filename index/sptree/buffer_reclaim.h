// Empties write buffers: those that keep old logs from being freed, those that hold records in a
// full pool, those of the leaves that a group will write to, and all of them.
//
// INVARIANT: it waits for a leaf's lock only without one, or, in a walk over all leaves, with locks
// of leaves to the left of it, as Check does; whoever goes to the left only tries.
//
// Called without locks, outside epochs. Used by the thread of the worker.
#pragma once

#include <span>
#include <string>

#include "index/node/write_tree.h"
#include "index/sptree/buffered_writes.h"
#include "index/sptree/leaf_walk.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class BufferReclaimer {
 public:
  BufferReclaimer(TreeState<C>& tree, Worker& worker)
      : tree_(tree), worker_(worker), writes_(tree) {}

  // Call after each write, of `ops` operations. If the thread has opened logs when live logs were
  // near their limit it examines as many entries of old logs as it has written, or twice as many,
  // and flushes the buffers that still need them: some at a time, which share fences. If a fence is
  // a sync, all that it owes at once. If it found the memory of buffers at its limit it flushes
  // some of the oldest.
  void EmptyOldLogs(size_t ops) {
    if (tree_.log.owed() != 0 || worker_.wants_buffer) [[unlikely]]
      ExamineOldEntries(ops);
  }
  // In a full pool: flushes some of the buffers that hold space, going on where the last call
  // ended. False: there are none.
  bool FlushSome();
  void FlushAll();
  // Those of the keys' leaves, which were just sought. Leaves that others have locked are left out.
  void FlushSought(std::span<SoughtKey<typename C::Key, SeenLeaf<Mnode<C>>>> keys);

 private:
  [[gnu::noinline]] void ExamineOldEntries(size_t ops);
  void Examine(unsigned entries);
  void HoldIfIn(const typename C::Key& key, uint32_t log);
  bool IsHeld(const Mnode<C>* leaf) const;
  void Hold(Mnode<C>* leaf);
  void FlushHeld();
  void FlushFrom(const std::string& from, bool all, size_t* most, std::string* reached);

  TreeState<C>& tree_;
  Worker& worker_;
  BufferedWrites<C> writes_;
  // Leaves that are locked, and will be flushed together.
  Mnode<C>* held_[BufferFlusher<C>::kTogether];
  size_t held_count_ = 0;
};

}  // namespace lodgekv::sptree
