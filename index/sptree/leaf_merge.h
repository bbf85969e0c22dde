// Merges of two neighbouring leaves (SPTree 4.5): the right one's pairs go to free slots of the
// left one by a two-phase insertion, then the left one's `next`, and hkey with it, moves past the
// right one. The protocol is the crash table Merge in README.md.
//
// A leaf and its right neighbour are merged when both together fill half a leaf at most, or one of
// them is empty; by the thread that has deleted from one of them, after its write. The leftmost
// leaf is never dropped.
//
// INVARIANT: the right leaf is unchanged but for its mark, and its space stays, until the left
// one's `next` is durable, and as long as a backup of the top layer leads to it.
//
// Thread-safe, for threads without locks: all locks are only tried.
#pragma once

#include <cstdint>

#include "index/sptree/buffer_flush.h"
#include "index/sptree/leaf_writer.h"
#include "index/sptree/low_fences.h"

namespace lodgekv::sptree {

template <class C>
class LeafMerger {
 public:
  using Key = typename C::Key;
  enum class Attempt : uint8_t {
    kDone,
    kCannot,  // the leaf has no neighbour that it may be merged with
    kBusy,    // a lock was taken: may be tried again
  };

  explicit LeafMerger(TreeState<C>& tree)
      : tree_(tree), fences_(tree), writer_(tree), flusher_(tree) {}

  // After a pair has left the locked leaf: notes its key if the leaf may have to be merged.
  void NoteIfSparse(Worker& worker, const Mnode<C>& leaf, const Key& key) const;
  // Merges the leaves that the thread has noted. What is busy is noted again.
  void MergeSparse(Worker& worker);

 private:
  bool AreSparse(uint64_t left, uint64_t right) const;
  void Note(Worker& worker, const Key& key) const;
  Attempt MergeAt(Worker& worker, const Key& key);
  bool IsTouched(const Mnode<C>& right) const;
  Attempt MergeWithRight(Worker& worker, Mnode<C>* leaf);
  Attempt MergeWithLeft(Worker& worker, Mnode<C>* leaf);
  Attempt Merge(Worker& worker, Mnode<C>* left, Mnode<C>* right);
  void Commit(LeafChange<C>* change, media::Bnode& right);
  void MarkDropped(media::Bnode& right);
  void Publish(const LeafChange<C>& change, Mnode<C>* right);
  void FreeRight(Worker& worker, media::Bnode* right);

  TreeState<C>& tree_;
  LowFences<C> fences_;
  LeafWriter<C> writer_;
  BufferFlusher<C> flusher_;
};

}  // namespace lodgekv::sptree
