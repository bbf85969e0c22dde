// Writes pairs into a leaf by entry moving (LB+-Tree 3.2, Alg. 2): one 8-byte store of the block's
// header commits everything staged before it (NAW, Definition 2.1). The protocol is Insert's crash
// table in README.md.
//
// INVARIANT: nothing is stored in a valid slot, neither by the header on the medium nor by the one
// to be committed.
//
// Thread-safe for different leaves; for one leaf, only the holder of its lock may call.
#pragma once

#include <cstdint>

#include "index/lbtree/tree_state.h"

namespace lodgekv::lbtree {

// A pair that is not yet in the leaf, with its key's fingerprint.
struct NewPair {
  Pair pair;
  uint8_t fingerprint;
};

template <class C>
class LeafWriter {
 public:
  explicit LeafWriter(TreeState<C>& tree) : tree_(tree) {}

  // Durable on return. False: the leaf is full.
  bool Insert(Worker& worker, const LockedLeaf& locked, const NewPair& added);

  // Step 1 alone, without its flush.
  unsigned StageInsert(Worker& worker, media::Block& block, unsigned header_line,
                       const NewPair& added, uint32_t committed, bool move, Header* header);
  void StoreSlot(media::Block& block, unsigned slot, Pair pair);
  static void CountInsert(Worker& worker, bool beside_header);

 private:
  [[gnu::noinline]] bool InsertIntoFurther(Worker& worker, const LockedLeaf& locked,
                                           const NewPair& added);
  void InsertIntoBlock(Worker& worker, const LockedLeaf& locked, unsigned block,
                       const NewPair& added);
  unsigned ChooseSlot(uint32_t free_slots, unsigned header_line) const;
  unsigned MoveEntries(media::Block& block, Header* header, unsigned header_line, uint32_t to);
  void CommitHeader(const LockedLeaf& locked, media::Word* words, const Header& header);

  TreeState<C>& tree_;
};

}  // namespace lodgekv::lbtree
