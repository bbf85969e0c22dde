// Checks a tree that nobody changes: the invariants of its nodes (node.h), that each leaf lies
// where its key says and they ascend, and that nothing is lost or left over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "index/art/any_leaf.h"
#include "index/art/key.h"
#include "index/art/node_change.h"
#include "index/art/tree.h"

namespace lodgekv::art {

template <class Below, class KeyOf>
class Checker {
 public:
  using Its = Tree<Below, KeyOf>;
  using Key = typename Its::Key;

  explicit Checker(const Its& tree) : parts_(tree.parts()) {}

  absl::Status Check();

 private:
  // A child that is still to be visited, and where it begins.
  struct Item {
    Child child;
    size_t depth;
  };

  absl::Status Visit(const Item& item, std::vector<Item>* left);
  absl::Status CheckLeaf(const Item& item);
  const char* FaultOf(Child node, size_t depth) const;
  const char* FaultOfSearch(Child node) const;
  const char* FaultOfKeys(Child node, size_t depth) const;
  static bool FitsWay(Key key, Key way, size_t depth, size_t branches_at);
  static absl::Status Wrong(const char* what, size_t depth) {
    return absl::InternalError(absl::StrCat("radix tree: ", what, " at depth ", depth));
  }
  Key SomeKey(Child child) const {
    View view(parts_.root.lock);
    return parts_.leaves.KeyOf(LeastLeaf(child, &view));
  }

  const typename Its::Parts& parts_;
  uint64_t leaves_ = 0;
  uint64_t nodes_[kKinds + 1] = {};
  std::optional<Key> last_;
};

template <class Below, class KeyOf>
absl::Status Checker<Below, KeyOf>::Check() {
  std::vector<Item> left;
  if (!parts_.root.child.Get().empty()) left.push_back({parts_.root.child.Get(), 0});
  while (!left.empty()) {
    const Item item = left.back();
    left.pop_back();
    const absl::Status status = item.child.is_node() ? Visit(item, &left) : CheckLeaf(item);
    if (!status.ok()) return status;
  }
  if (leaves_ != parts_.size.load()) return Wrong("another number of leaves than was counted", 0);
  for (const Kind kind : {Kind::k4, Kind::k16, Kind::k48, Kind::k256}) {
    if (nodes_[static_cast<unsigned>(kind)] != parts_.nodes.count(kind)) {
      return Wrong("another number of nodes than was counted", 0);
    }
  }
  return absl::OkStatus();
}

template <class Below, class KeyOf>
absl::Status Checker<Below, KeyOf>::CheckLeaf(const Item& item) {
  const Key key = parts_.leaves.KeyOf(item.child);
  if (last_ && !(*last_ < key)) return Wrong("leaves that do not ascend", LengthOf(key));
  if (item.child.hint() != HintAt(key, item.depth)) return Wrong("a leaf's wrong hint", item.depth);
  last_ = key;
  ++leaves_;
  return absl::OkStatus();
}

template <class Below, class KeyOf>
absl::Status Checker<Below, KeyOf>::Visit(const Item& item, std::vector<Item>* left) {
  ++nodes_[static_cast<unsigned>(item.child.kind())];
  if (const char* fault = FaultOf(item.child, item.depth); fault != nullptr) {
    return Wrong(fault, item.depth);
  }
  const size_t branches_at = item.depth + item.child.node()->info().prefix_length;
  const size_t first = left->size();
  const Child terminal = item.child.node()->terminal.Get();
  if (!terminal.empty()) left->push_back({terminal, branches_at});
  EachChild(item.child, [&](uint8_t, Child child) { left->push_back({child, branches_at + 1}); });
  std::reverse(left->begin() + static_cast<ptrdiff_t>(first), left->end());
  return absl::OkStatus();
}

// Null: none.
template <class Below, class KeyOf>
const char* Checker<Below, KeyOf>::FaultOf(Child node, size_t depth) const {
  const NodeInfo info = node.node()->info();
  if (node.node()->lock.IsLocked()) return "a node that is locked";
  if (node.node()->entries() < 2) return "a node with less than two entries";
  if (info.count > CapacityOf(node.kind())) return "a node with too many children";
  if (info.count <= ShrinksAt(node.kind())) return "a node with too few children for its kind";
  if (const char* fault = FaultOfSearch(node); fault != nullptr) return fault;
  return FaultOfKeys(node, depth);
}

// Each child is found by its byte, and nothing by others.
template <class Below, class KeyOf>
const char* Checker<Below, KeyOf>::FaultOfSearch(Child node) const {
  const NodeInfo info = node.node()->info();
  Child by_byte[256];
  unsigned count = 0;
  int last = -1;
  bool ascends = true;
  EachChild(node, [&](uint8_t byte, Child child) {
    ascends &= last < byte && !child.empty();
    by_byte[byte] = child;
    last = byte;
    ++count;
  });
  if (!ascends) return "bytes that do not ascend";
  if (count != info.count) return "another number of children than its count";
  Child below = node.node()->terminal.Get();
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto b = static_cast<uint8_t>(byte);
    const Hit hit = Find<SearchBytesByPointer>(node, info, b);
    if (hit.child != by_byte[byte]) return "a byte that leads to a wrong child";
    if (hit.has_below != (!below.empty() && below != node.node()->terminal.Get())) {
      return "a byte with a wrong answer whether something is below it";
    }
    if (GreatestBelow<SearchBytesByPointer>(node, b) != below) return "a wrong child below a byte";
    if (!by_byte[byte].empty()) below = by_byte[byte];
  }
  return Greatest(node) == below ? nullptr : "a wrong last child";
}

// Whether the key has the first bytes of `way`, of which those before `depth` were compared above.
template <class Below, class KeyOf>
bool Checker<Below, KeyOf>::FitsWay(Key key, Key way, size_t depth, size_t branches_at) {
  return LengthOf(key) >= branches_at && FirstDifference(key, way, depth) >= branches_at;
}

template <class Below, class KeyOf>
const char* Checker<Below, KeyOf>::FaultOfKeys(Child node, size_t depth) const {
  const NodeInfo info = node.node()->info();
  const size_t branches_at = depth + info.prefix_length;
  const Key way = SomeKey(node);
  Node expected;
  expected.SetPrefix(WordAt(way, depth), info.prefix_length);
  if (expected.shown_prefix() != node.node()->shown_prefix()) return "a wrong prefix";
  const Child terminal = node.node()->terminal.Get();
  if (terminal.is_node()) return "a terminal that is a node";
  if (!terminal.empty() && LengthOf(parts_.leaves.KeyOf(terminal)) != branches_at) {
    return "a terminal whose key does not end there";
  }
  bool fits = true;
  EachChild(node, [&](uint8_t byte, Child child) {
    const Key key = SomeKey(child);
    fits &= FitsWay(key, way, depth, branches_at) && LengthOf(key) > branches_at &&
            ByteAt(key, branches_at) == byte;
  });
  return fits ? nullptr : "a child whose keys are not those of its way";
}

}  // namespace lodgekv::art
