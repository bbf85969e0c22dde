// Finds the greatest separator that is not above a key, or that is below it.
//
// The descent follows the key's bytes and remembers the last place where something lies to the left
// of its way; when the way ends at what is above the key, it goes back there and takes the greatest
// leaf to the left. Each node's version is taken before its parent's is validated, and is validated
// before anything is concluded from what the node has shown (DaMoN 2016, "Optimistic Lock
// Coupling").
//
// On which side of a leaf the key is, the leaf's hint says (child.h), unless that is the key's own
// two bytes: then the lower node is asked for its separator.
//
// Prefixes of more than eight bytes are not compared on the way, but with the key of the leaf where
// the descent ends, which has the bytes of all nodes above it ("optimistic path compression", ICDE
// 2013, "Collapsing Inner Nodes"). Where that differs from the key in a prefix that was passed
// over, the descent is repeated, and when it comes to that prefix (`suspect_`), it looks at a
// leaf's key there. Keys seldom part from the separators within a long prefix.
//
// What holds of the result: it was in the tree at some moment of the search, and no separator that
// was there all the time lies between it and the key. It need not have been the right one at any
// single moment: the way ended at t1, say, and the leaf to the left is read at t2, and meanwhile
// separators came to both places. That would take a validation of all nodes between the two, and
// there may be thousands (keys of 65,535 bytes). A caller whose lower nodes know their bounds, as
// those of SPTree do (4.1), compares them with the key under the lower node's own version, and
// moves to the right from there, or seeks again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "index/art/any_leaf.h"
#include "index/art/key.h"
#include "index/art/node_search.h"
#include "index/art/view.h"

namespace lodgekv::art {

template <class Form, class Key, class Leaves, bool kOrEqual>
class FloorSearch {
 public:
  FloorSearch(Key key, const Leaves& leaves) : key_(key), leaves_(leaves) {}

  enum class End : uint8_t {
    kOnTheWay,
    kFound,    // `result()`, which may be empty
    kChanged,  // something has changed meanwhile: again from the root
    kMisfit,   // a prefix that was passed over is not the key's: again, too
  };
  End Run(const Root& root);
  Child result() const { return result_; }
  // Of what has shown the result: while it holds, that is in the tree.
  const View& shown_by() const { return shown_by_; }

  // The same in steps, for a caller that makes several searches at once (floor_each.h): a way
  // begins at the root, and each Step, while the way is at a node, reads that one and leads to
  // `child`. At a leaf, or at nothing, End ends it.
  struct Way {
    Child child;
    View view;  // of what has shown the child
  };
  void Begin(const Root& root, Way* way);
  // kOnTheWay: to be continued.
  [[gnu::always_inline]] End Step(Way* way);
  End Arrive(const Way& way) { return AtLeaf(way.child, way.view); }
  // The way has ended at a leaf above the key, as its hint says.
  bool IsPast(const Way& way) const { return CompareHint(way.child) < 0; }

 private:
  using Search = typename ByteSearch<Form>::Type;
  // Keys of eight bytes have no prefix that does not fit into its node, nor do they end above the
  // leaves.
  static constexpr bool kTexts = !std::is_same_v<Key, uint64_t>;
  static constexpr size_t kNowhere = SIZE_MAX;
  static constexpr int kChangedOrder = 2;

  // -1, 0, 1: the key against the node's prefix, from depth_ on. kChangedOrder: no answer.
  int ComparePrefix(Child node, View here, NodeInfo info);
  int CompareWithLeaf(Child node, View here, NodeInfo info) const;
  // -1, 1: the key against the leaf's. 0: that leaf must be looked at.
  int CompareHint(Child leaf) const {
    if (kTexts && skipped_ < depth_) return 0;
    const uint16_t hint = HintAt(key_, depth_);
    return int{hint > leaf.hint()} - int{hint < leaf.hint()};
  }
  // The ways in which a descent ends.
  End AtLeaf(Child leaf, View above);
  End InPrefix(Child node, View here, int order);
  End AtTerminal(Child node, View here);
  End BetweenChildren(Child node, View here);
  // What they share.
  End GoBack();
  End TakeGreatest(Child child, View above);
  End Take(Child leaf, View shown_by);
  bool Fits(Child leaf);
  End FitsUnder(Child child, View above);

  const Key key_;
  const Leaves& leaves_;
  size_t depth_ = 0;
  size_t skipped_ = kNowhere;  // the first byte that was passed over
  size_t suspect_ = kNowhere;  // a byte that has to be compared on the way
  Child left_of_;              // the last node with something to the left of the way,
  View left_view_;             // its version,
  uint8_t left_byte_ = 0;      // and the byte by which the way goes on there
  Child result_;
  View shown_by_;
};

template <class Form, class Key, class Leaves, bool kOrEqual>
void FloorSearch<Form, Key, Leaves, kOrEqual>::Begin(const Root& root, Way* way) {
  depth_ = 0;
  skipped_ = kNowhere;
  left_of_ = Child();
  way->view = View(root.lock);
  way->child = root.child.Get();
}

template <class Form, class Key, class Leaves, bool kOrEqual>
inline auto FloorSearch<Form, Key, Leaves, kOrEqual>::Step(Way* way) -> End {
  const Child at = way->child;
  if (!StepInto(at, &way->view)) [[unlikely]]
    return End::kChanged;
  const Node& node = *at.node();
  const NodeInfo info = node.info();
  if (info.prefix_length != 0) {
    const int order = ComparePrefix(at, way->view, info);
    if (order != 0) return InPrefix(at, way->view, order);
    depth_ += info.prefix_length;
  }
  if (kTexts && depth_ == LengthOf(key_)) return AtTerminal(at, way->view);
  const uint8_t byte = ByteAt(key_, depth_);
  const Hit hit = Find<Search>(at, info, byte);
  if (hit.has_below || (kTexts && !node.terminal.Get().empty())) {
    left_of_ = at;
    left_view_ = way->view;
    left_byte_ = byte;
  }
  if (hit.child.empty()) return BetweenChildren(at, way->view);
  way->child = hit.child;
  ++depth_;
  return End::kOnTheWay;
}

template <class Form, class Key, class Leaves, bool kOrEqual>
auto FloorSearch<Form, Key, Leaves, kOrEqual>::Run(const Root& root) -> End {
  Way way;
  Begin(root, &way);
  while (way.child.is_node()) {
    const End end = Step(&way);
    if (end != End::kOnTheWay) return end;
  }
  return Arrive(way);
}

template <class Form, class Key, class Leaves, bool kOrEqual>
int FloorSearch<Form, Key, Leaves, kOrEqual>::ComparePrefix(Child node, View here, NodeInfo info) {
  const unsigned shown = std::min<unsigned>(info.prefix_length, kShownPrefix);
  const unsigned unused = 64 - 8 * shown;
  const uint64_t of_key = WordAt(key_, depth_) >> unused;
  const uint64_t of_node = node.node()->shown_prefix() >> unused;
  if (of_key != of_node) return of_key < of_node ? -1 : 1;
  if constexpr (kTexts) {
    const size_t left = LengthOf(key_) - depth_;
    // A key that is the beginning of others sorts before them.
    if (left < info.prefix_length && left <= kShownPrefix) return -1;
    if (info.prefix_length > kShownPrefix) [[unlikely]] {
      const size_t first = depth_ + kShownPrefix;
      const size_t end = depth_ + info.prefix_length;
      if (left < info.prefix_length || (suspect_ >= first && suspect_ < end)) {
        return CompareWithLeaf(node, here, info);
      }
      skipped_ = std::min(skipped_, first);
    }
  }
  return 0;
}

// The whole prefix, as a leaf under the node has it.
template <class Form, class Key, class Leaves, bool kOrEqual>
int FloorSearch<Form, Key, Leaves, kOrEqual>::CompareWithLeaf(Child node, View here,
                                                              NodeInfo info) const {
  View above = here;
  const Child leaf = LeastLeaf(Least(node), &above);
  if (leaf.empty()) return kChangedOrder;
  const Key other = leaves_.KeyOf(leaf);
  const size_t at = FirstDifference(key_, other, depth_);
  const int order = at >= depth_ + info.prefix_length ? 0 : OrderAt(key_, other, at);
  return above.Holds() && here.Holds() ? order : kChangedOrder;
}

template <class Form, class Key, class Leaves, bool kOrEqual>
auto FloorSearch<Form, Key, Leaves, kOrEqual>::AtLeaf(Child leaf, View above) -> End {
  if (leaf.empty()) {  // the tree is
    return above.Holds() ? Take(leaf, above) : End::kChanged;
  }
  int order = CompareHint(leaf);
  if (order >= 0) leaves_.Fetch(leaf);
  if (order != 0) [[likely]] {
    if (!above.Holds()) [[unlikely]]
      return End::kChanged;
    return order < 0 ? GoBack() : Take(leaf, above);
  }
  const Key other = leaves_.KeyOf(leaf);
  if constexpr (kTexts) {
    const size_t at = FirstDifference(key_, other, std::min(skipped_, depth_));
    order = OrderAt(key_, other, at);
    if (at < depth_) suspect_ = at;
    if (!above.Holds()) return End::kChanged;
    if (at < depth_) return End::kMisfit;
  } else {
    order = key_ < other ? -1 : key_ > other ? 1 : 0;
    if (!above.Holds()) [[unlikely]]
      return End::kChanged;
  }
  if (order < 0 || (order == 0 && !kOrEqual)) return GoBack();
  return Take(leaf, above);
}

// The key parts from the node's subtree within its prefix.
template <class Form, class Key, class Leaves, bool kOrEqual>
auto FloorSearch<Form, Key, Leaves, kOrEqual>::InPrefix(Child node, View here, int order) -> End {
  if (order == kChangedOrder || !here.Holds()) return End::kChanged;
  if (order > 0) return TakeGreatest(node, here);
  const End end = FitsUnder(node, here);
  return end == End::kFound ? GoBack() : end;
}

// The key ends where the node branches.
template <class Form, class Key, class Leaves, bool kOrEqual>
auto FloorSearch<Form, Key, Leaves, kOrEqual>::AtTerminal(Child node, View here) -> End {
  const Child terminal = node.node()->terminal.Get();
  const End end = FitsUnder(node, here);
  if (end != End::kFound) return end;
  if (!kOrEqual || terminal.empty()) return GoBack();
  return Take(terminal, here);
}

// No child is by the key's byte.
template <class Form, class Key, class Leaves, bool kOrEqual>
auto FloorSearch<Form, Key, Leaves, kOrEqual>::BetweenChildren(Child node, View here) -> End {
  if (!here.Holds()) [[unlikely]]
    return End::kChanged;
  if (left_of_ == node) return TakeGreatest(GreatestBelow<Search>(node, left_byte_), here);
  const End end = FitsUnder(node, here);
  return end == End::kFound ? GoBack() : end;
}

// All on the way is above the key.
template <class Form, class Key, class Leaves, bool kOrEqual>
auto FloorSearch<Form, Key, Leaves, kOrEqual>::GoBack() -> End {
  skipped_ = kNowhere;  // what fits below fits there
  if (left_of_.empty()) return Take(Child(), View());
  return TakeGreatest(GreatestBelow<Search>(left_of_, left_byte_), left_view_);
}

template <class Form, class Key, class Leaves, bool kOrEqual>
auto FloorSearch<Form, Key, Leaves, kOrEqual>::TakeGreatest(Child child, View above) -> End {
  const Child leaf = GreatestLeaf(child, &above);
  if (leaf.empty()) return End::kChanged;
  leaves_.Fetch(leaf);
  const bool fits = Fits(leaf);
  if (!above.Holds()) [[unlikely]]
    return End::kChanged;
  return fits ? Take(leaf, above) : End::kMisfit;
}

template <class Form, class Key, class Leaves, bool kOrEqual>
auto FloorSearch<Form, Key, Leaves, kOrEqual>::Take(Child leaf, View shown_by) -> End {
  result_ = leaf;
  shown_by_ = shown_by;
  return End::kFound;
}

// Whether the bytes that were passed over are those of a leaf under the end of the way. Looks at
// the leaf only if there were any.
template <class Form, class Key, class Leaves, bool kOrEqual>
bool FloorSearch<Form, Key, Leaves, kOrEqual>::Fits(Child leaf) {
  if (!kTexts || skipped_ >= depth_) return true;
  const size_t at = FirstDifference(key_, leaves_.KeyOf(leaf), skipped_);
  if (at >= depth_) return true;
  suspect_ = at;
  return false;
}

// The same of some leaf under the node.
template <class Form, class Key, class Leaves, bool kOrEqual>
auto FloorSearch<Form, Key, Leaves, kOrEqual>::FitsUnder(Child node, View here) -> End {
  if (!kTexts || skipped_ >= depth_) return here.Holds() ? End::kFound : End::kChanged;
  View above = here;
  const Child leaf = LeastLeaf(Least(node), &above);
  if (leaf.empty()) return End::kChanged;
  const bool fits = Fits(leaf);
  if (!above.Holds()) return End::kChanged;
  return fits ? End::kFound : End::kMisfit;
}

}  // namespace lodgekv::art
