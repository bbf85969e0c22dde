// Divides a full leaf in two: decides what stays and what moves, and stores the new leaf where
// nothing reads it yet. The caller commits: a split by itself (leaf_splitter.h), or a group.
//
// A leaf that gets a key above all of its own keeps those: so keys that ascend leave full leaves.
//
// INVARIANT: until the commit no valid word has changed, and nothing refers to the new leaf.
//
// Thread-safe for different leaves; the caller holds the left leaf's lock.
#pragma once

#include <string>

#include "index/engine.h"
#include "index/tlbtree/node_image.h"
#include "index/tlbtree/tree_state.h"

namespace lodgekv::tlbtree {

template <class C>
class LeafDivider {
 public:
  using Node = media::Node<C>;
  using Key = typename C::Key;

  // The left leaf as it will be without the division.
  struct Left {
    const Node* leaf;
    NodeState state;
    Low low;  // as it was found: its text may be gone (FindLow)
    LinkTo high;
  };
  struct Division {
    Node* right = nullptr;
    Low low;            // of the right leaf
    unsigned stay = 0;  // how many pairs stay
    bool goes_right = false;
  };

  explicit LeafDivider(TreeState<C>& tree) : tree_(tree) {}

  // Allocates the right leaf. `place`: of the new key. kPoolFull, or kDataLoss if the keys are so
  // damaged that none divides them; then nothing was allocated.
  Outcome Divide(Worker& worker, const Left& left, const Key& key, unsigned place, Division* made);
  // Writes the right leaf, with `added` at its place if it is not null; flushed if `flush`.
  void StoreRight(const Left& left, const Division& made, const Pair* added, unsigned place,
                  bool flush);
  // The bound between two neighbours, as text.
  std::string TextBetween(Pair left, Pair right) const;

 private:
  Pair PairAt(const Left& left, unsigned place) const {
    const media::Slot& slot = left.leaf->slots[left.state.SlotAt(place)];
    return {slot.key.LoadRelaxed(), slot.value.LoadRelaxed()};
  }
  // How many pairs stay, and the bound of what does not, as text.
  struct Border {
    unsigned stay = 0;
    std::string text;
  };
  unsigned Borders(const Left& found, const Key& key, unsigned place, Border (&borders)[2]) const;
  bool ChooseBorder(const Left& left, const Key& key, unsigned place, Border* border) const;
  bool Divides(const Left& left, const Border& border) const;
  bool TiedIsOnItsSide(Pair pair, unsigned place, const Border& border) const;
  bool FindLow(const Key& key, Left* left) const;
  bool DivideAtKey(const Left& left, const Key& key, unsigned place, Border* border) const;
  bool MakeLowOf(Worker& worker, const Key& key, const std::string& text,
                 pmem::ReservePolicy policy, Low* low);
  std::string TextBelow(Pair left, const Key& key) const;

  TreeState<C>& tree_;
};

}  // namespace lodgekv::tlbtree
