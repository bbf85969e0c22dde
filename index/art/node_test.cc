// One node of each kind beside a map, by both forms of the search, and the kinds' turns.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "index/art/art_test_util.h"
#include "index/art/byte_search.h"
#include "index/art/node_change.h"
#include "index/art/node_store.h"

namespace lodgekv::art {
namespace {

struct SearchBytesByScalar {
  static ByteMasks Compare(const uint8_t* bytes, uint8_t byte) {
    return CompareBytesScalar(bytes, byte);
  }
  static ByteMasks CompareFour(uint32_t four, uint8_t byte) {
    alignas(16) uint8_t bytes[16] = {};
    std::memcpy(bytes, &four, sizeof(four));
    return CompareBytesScalar(bytes, byte);
  }
};

TEST(ByteSearchTest, TheTwinsAgree) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    alignas(16) uint8_t bytes[16];
    const uint64_t spread = round % 2 == 0 ? 256 : 5;
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(254 + random() % spread);
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto b = static_cast<uint8_t>(byte);
      const ByteMasks wanted = CompareBytesScalar(bytes, b);
      ASSERT_EQ(CompareBytesSse2(bytes, b).less, wanted.less);
      ASSERT_EQ(CompareBytesSse2(bytes, b).equal, wanted.equal);
      for (unsigned i = 0; i < 16; ++i) {
        ASSERT_EQ(wanted.less >> i & 1, bytes[i] < b ? 1u : 0u);
        ASSERT_EQ(wanted.equal >> i & 1, bytes[i] == b ? 1u : 0u);
      }
    }
  }
}

// A node with leaves, which are numbers here, beside a map.
class NodeModel {
 public:
  static Child LeafOf(unsigned byte) { return Child(uint64_t{8} * (byte + 1)); }

  void Add(unsigned byte) {
    if (node_.node()->info().count == CapacityOf(node_.kind())) {
      MoveTo(KindFor(CapacityOf(node_.kind()) + 1));
    }
    art::Add(node_, static_cast<uint8_t>(byte), LeafOf(byte));
    map_[byte] = LeafOf(byte);
  }
  void Drop(unsigned byte) {
    art::Drop(node_, static_cast<uint8_t>(byte));
    map_.erase(byte);
    if (map_.size() == ShrinksAt(node_.kind())) {
      MoveTo(KindFor(static_cast<unsigned>(map_.size())));
    }
  }
  void SetTerminal(Child terminal) { node_.node()->terminal.Set(terminal); }

  template <class Search>
  void Expect() const {
    const NodeInfo info = node_.node()->info();
    const Child terminal = node_.node()->terminal.Get();
    Child below = terminal;
    ASSERT_EQ(info.count, map_.size());
    for (unsigned byte = 0; byte < 256; ++byte) {
      const auto at = map_.find(byte);
      const Hit hit = Find<Search>(node_, info, static_cast<uint8_t>(byte));
      ASSERT_EQ(hit.child, at == map_.end() ? Child() : at->second) << byte;
      ASSERT_EQ(hit.has_below, map_.lower_bound(byte) != map_.begin()) << byte;
      ASSERT_EQ(GreatestBelow<Search>(node_, static_cast<uint8_t>(byte)), below) << byte;
      if (at != map_.end()) below = at->second;
    }
    ASSERT_EQ(Greatest(node_), below);
    ASSERT_EQ(Least(node_), terminal.empty() && !map_.empty() ? map_.begin()->second : terminal);
    auto next = map_.begin();
    EachChild(node_, [&](uint8_t byte, Child child) {
      EXPECT_EQ(byte, next->first);
      EXPECT_EQ(child, next->second);
      ++next;
    });
    ASSERT_EQ(next, map_.end());
  }
  void ExpectBoth() const {
    ASSERT_NO_FATAL_FAILURE(Expect<SearchBytesByScalar>());
    ASSERT_NO_FATAL_FAILURE(Expect<SearchBytesBySse2>());
  }

  Kind kind() const { return node_.kind(); }
  uint64_t nodes() const {
    uint64_t all = 0;
    for (unsigned kind = 1; kind <= kKinds; ++kind) all += store_.count(static_cast<Kind>(kind));
    return all;
  }

 private:
  void MoveTo(Kind kind) {
    const Child moved = store_.New(kind);
    CopyNode(node_, moved);
    store_.Free(node_);
    node_ = moved;
  }

  DramArena arena_;
  NodeStore store_{arena_};
  Child node_ = store_.New(Kind::k4);
  std::map<unsigned, Child> map_;
};

void GrowAndShrink(std::vector<unsigned> bytes, bool with_terminal) {
  NodeModel model;
  if (with_terminal) model.SetTerminal(Child(8000));
  for (int round = 0; round < 2; ++round) {
    for (const unsigned byte : bytes) {
      model.Add(byte);
      ASSERT_NO_FATAL_FAILURE(model.ExpectBoth());
    }
    EXPECT_EQ(model.kind(), Kind::k256);
    std::rotate(bytes.begin(), bytes.begin() + 77, bytes.end());
    for (const unsigned byte : bytes) {
      model.Drop(byte);
      ASSERT_NO_FATAL_FAILURE(model.ExpectBoth());
    }
    EXPECT_EQ(model.kind(), Kind::k4);
  }
  EXPECT_EQ(model.nodes(), 1u);
}

TEST(ArtNodeTest, GrowsAndShrinksThroughAllKinds) {
  std::vector<unsigned> bytes(256);
  std::iota(bytes.begin(), bytes.end(), 0u);
  GrowAndShrink(bytes, false);
  std::reverse(bytes.begin(), bytes.end());
  GrowAndShrink(bytes, true);
  std::mt19937_64 random(5);
  for (int round = 0; round < 4; ++round) {
    std::shuffle(bytes.begin(), bytes.end(), random);
    GrowAndShrink(bytes, round % 2 == 0);
  }
}

// In the tree: one node whose children are all leaves, and its kind at each number of them.
Kind KindAt(size_t count, bool shrinks) {
  if (count <= (shrinks ? 3u : 4u)) return Kind::k4;
  if (count <= (shrinks ? 12u : 16u)) return Kind::k16;
  return count <= (shrinks ? 37u : 48u) ? Kind::k48 : Kind::k256;
}

template <class Its>
void HasOneNodeOfItsKind(const Its& tree, size_t count, bool shrinks) {
  for (const Kind kind : {Kind::k4, Kind::k16, Kind::k48, Kind::k256}) {
    ASSERT_EQ(tree.nodes().count(kind), kind == KindAt(count, shrinks) ? 1u : 0u) << count;
  }
}

template <class Its>
void ANodeTakesTurns() {
  Model<Its> model;
  const auto text = [](uint64_t n) {
    return "prefix!" + std::string(1, static_cast<char>(n * 37));
  };
  for (uint64_t n = 0; n < 256; ++n) {
    ASSERT_NO_FATAL_FAILURE(model.Insert(text(n)));
    if (n == 0) continue;  // a leaf alone
    ASSERT_NO_FATAL_FAILURE(HasOneNodeOfItsKind(model.tree(), n + 1, false));
  }
  ASSERT_NO_FATAL_FAILURE(model.ExpectAll());
  for (uint64_t n = 255; n > 1; --n) {
    ASSERT_NO_FATAL_FAILURE(model.Remove(text(n)));
    ASSERT_NO_FATAL_FAILURE(HasOneNodeOfItsKind(model.tree(), n, true));
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(text(n)));
    EXPECT_TRUE(Checker(model.tree()).Check().ok()) << Checker(model.tree()).Check();
  }
  ASSERT_NO_FATAL_FAILURE(model.Remove(text(1)));
  EXPECT_EQ(model.tree().nodes().used_bytes(), 0u);
  ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(text(0)));
  ASSERT_NO_FATAL_FAILURE(model.ExpectAll());
}

TEST(ArtNodeTest, ChangesItsKindInTheTree) {
  ANodeTakesTurns<WordTree>();
  ANodeTakesTurns<TextTree>();
}

// A sliding window of keys: the nodes that it has passed are used again.
template <class Its>
void KeepsAWindow(MakeText make) {
  constexpr uint64_t kAlive = 2000;
  Model<Its> model;
  uint64_t held_after_one = 0;
  for (uint64_t n = 0; n < 20 * kAlive; ++n) {
    ASSERT_NO_FATAL_FAILURE(model.Insert(make(n)));
    if (n < kAlive) continue;
    ASSERT_NO_FATAL_FAILURE(model.Remove(make(n - kAlive)));
    if (n == 2 * kAlive) held_after_one = model.tree().nodes().held_bytes();
  }
  EXPECT_EQ(model.tree().nodes().held_bytes(), model.arena().used_bytes());
  EXPECT_LE(model.tree().nodes().held_bytes(), held_after_one * 12 / 10);
  EXPECT_TRUE(Checker(model.tree()).Check().ok()) << Checker(model.tree()).Check();
}

TEST(ArtNodeTest, MemoryIsUsedAgain) {
  KeepsAWindow<WordTree>(Ascending);
  KeepsAWindow<WordTree>(Descending);
  KeepsAWindow<TextTree>([](uint64_t n) { return "row" + std::to_string(1000000 + n); });
}

}  // namespace
}  // namespace lodgekv::art
