#include "index/node/inner_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "index/node/codec.h"
#include "index/node/inner_tree_shrink.h"

namespace lodgekv {
namespace {

// A lower node: what the tree requires of it, and its low bound.
struct Below {
  VersionLock lock;
  std::string low;
  void PrefetchForRead() const {}
  void PrefetchForWrite() const {}
};

template <class C>
struct Format;

template <>
struct Format<Fixed64Codec> {
  static uint64_t Separator(SeparatorTexts&, const std::string& text) { return KeyWord(text, 0); }
};
template <>
struct Format<BytesCodec> {
  static const SeparatorText* Separator(SeparatorTexts& texts, const std::string& text) {
    return texts.New(text);
  }
};

std::string BigEndian(uint64_t word) {
  std::string text(8, '\0');
  StoreBigEndian(word, text.data());
  return text;
}

using MakeText = std::string (*)(uint64_t);

// A tree beside a map with the same content.
template <class C>
class Model {
 public:
  using Tree = InnerTree<C, Below>;

  explicit Model(const std::vector<std::string>& lows = {}) {
    std::vector<typename Tree::Child> children;
    children.push_back({C::MinusInfinity(), New(first_)});
    for (const std::string& low : lows) {
      if (low == first_) continue;
      children.push_back({NewSeparator(low), New(low)});
    }
    tree_.Build(children);
  }

  // Splits the node that covers lows[0] so that nodes begin at `lows`, which ascend up to its end.
  void Split(std::vector<std::string> lows) {
    const auto key = C::MakeKey(lows[0]);
    typename Tree::Node* parent = tree_.LockParent(key);
    const size_t room = Tree::FreeSlots(parent);
    ASSERT_GE(room, 1u);
    lows.resize(std::min(lows.size(), room));
    const auto end = map_.upper_bound(lows[0]);
    std::vector<typename Tree::Child> children;
    for (const std::string& low : lows) {
      if (map_.contains(low) || (end != map_.end() && low >= end->first)) break;
      children.push_back({NewSeparator(low), New(low)});
    }
    tree_.InsertAndUnlock(parent, key, children);
  }

  void Insert(const std::string& low) {
    if (!map_.contains(low)) Split({low});
  }

  // Removes the node that covers `text`; its left neighbour, or if necessary its right one, then
  // covers its range. False: it is the last one.
  bool Remove(const std::string& text) {
    const auto key = C::MakeKey(text);
    const auto at = std::prev(map_.upper_bound(text));
    typename Tree::Node* parent;
    if (tree_.LockForRemoval(key, at->second, Tree::Heir::kEither, &parent) !=
        Tree::Attempt::kDone) {
      return false;
    }
    uint64_t snapshot;
    Below* heir = nullptr;
    if (parent->children[0].node() == at->second) {
      heir = static_cast<Below*>(parent->children[1].node());
      heir->low = at->first;
    }
    tree_.RemoveAndUnlock(parent, key);
    if (heir == nullptr) {
      EXPECT_EQ(tree_.Descend(key, &snapshot), std::prev(at)->second);
      map_.erase(at);
    } else {
      map_.erase(std::next(at));
      at->second = heir;
    }
    EXPECT_TRUE(tree_.Shrink(key));
    return true;
  }

  void ExpectFinds(const std::string& text) const {
    const auto key = C::MakeKey(text);
    uint64_t snapshot;
    const auto at = std::prev(map_.upper_bound(text));
    const Below* found = tree_.Descend(key, &snapshot);
    ASSERT_EQ(found->low, at->first) << "of " << ::testing::PrintToString(text);
    ASSERT_TRUE(found->lock.Validate(snapshot));
    if (text == first_) return;
    const auto before = std::prev(map_.lower_bound(text));
    ASSERT_EQ(tree_.Descend(key, &snapshot, Tree::Seek::kBefore)->low, before->first)
        << "before " << ::testing::PrintToString(text);
  }

  void ExpectAll() const {
    for (const auto& [low, below] : map_) ASSERT_NO_FATAL_FAILURE(ExpectFinds(low));
    uint64_t snapshot;
    EXPECT_EQ(tree_.DescendLast(&snapshot)->low, map_.rbegin()->first);
    ExpectFindsEach();
  }

  // The same by one call for all keys.
  void ExpectFindsEach() const {
    std::vector<std::pair<typename C::Key, const Below*>> wanted;
    for (const auto& [low, below] : map_) wanted.emplace_back(C::MakeKey(low), below);
    size_t next = 0;
    tree_.template DescendEach<SearchByPointer>(
        wanted.size(), [&](size_t i) -> const typename C::Key& { return wanted[i].first; },
        [&](size_t i, const Below* found, uint64_t snapshot) {
          EXPECT_EQ(i, next++);
          EXPECT_EQ(found, wanted[i].second);
          EXPECT_TRUE(found->lock.Validate(snapshot));
        });
    EXPECT_EQ(next, wanted.size());
  }

  // If one child is left no separator has an owner, and each was released once.
  void ExpectNoSeparators() {
    ASSERT_EQ(size(), 1u);
    if (!C::kRecords) return;
    for (const uint64_t before = given_up_; given_up_ == before; ++made_) {
      texts_.Release(texts_.New("more"));
    }
    EXPECT_EQ(given_up_, made_);
  }

  const Tree& tree() const { return tree_; }
  uint64_t dram_bytes() const { return dram_.used_bytes(); }
  size_t size() const { return map_.size(); }

 private:
  Below* New(const std::string& low) {
    nodes_.emplace_back().low = low;
    return map_[low] = &nodes_.back();
  }

  typename C::Separator NewSeparator(const std::string& low) {
    ++made_;
    return Format<C>::Separator(texts_, low);
  }

  const std::string first_ = C::kRecords ? std::string() : std::string(8, '\0');
  DramArena dram_;
  // Nobody holds a guard here: released memory is reused at once.
  SeparatorTexts texts_{dram_, [this](SeparatorTexts::Batch gone) {
                          given_up_ += gone.size();
                          texts_.Free(gone);
                        }};
  uint64_t made_ = 0;
  uint64_t given_up_ = 0;
  Tree tree_{dram_, texts_};
  std::deque<Below> nodes_;
  std::map<std::string, Below*> map_;
};

uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 31) * 0x9E3779B97F4A7C15ull;
  return x ^ x >> 29;
}

// Separators that are error-prone in `bytes` trees.
std::string Plain(uint64_t n) { return BigEndian(Mix(n)); }
std::string Dense(uint64_t n) { return BigEndian(Mix(n) % 2000 + 1); }
std::string LongPrefix(uint64_t n) { return "tenant:0007/user:" + std::to_string(Mix(n) % 100000); }
std::string OneOfThreePrefixes(uint64_t n) {
  return std::string(20, static_cast<char>('a' + Mix(n) % 3)) + std::to_string(Mix(n) % 3001);
}
// Equal words: the keys differ only in the number of zeros, or after them.
std::string Zeros(uint64_t n) {
  return "x" + std::string(Mix(n) % 60, '\0') + (n % 2 == 0 ? "" : "y");
}
std::string Short(uint64_t n) {
  return std::string(1 + Mix(n) % 2, static_cast<char>(Mix(n) >> 8)) +
         std::string(Mix(n) % 3, static_cast<char>(Mix(n) >> 16));
}
std::string Ascending(uint64_t n) {
  char text[32];
  std::snprintf(text, sizeof(text), "row%012llu", static_cast<unsigned long long>(n));
  return text;
}
std::string AscendingWord(uint64_t n) { return BigEndian(n + 1); }
std::string DescendingWord(uint64_t n) { return BigEndian(1'000'000 - n); }

template <class C>
void GrowsOneByOne(MakeText make) {
  Model<C> model;
  std::mt19937_64 random(4);
  for (uint64_t n = 0; n < 3000; ++n) {
    ASSERT_NO_FATAL_FAILURE(model.Insert(make(n)));
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(make(n)));
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(make(random() % 6000)));
  }
  model.ExpectAll();
}

TEST(InnerTreeTest, Fixed64Grows) {
  for (const MakeText make : {Plain, Dense, AscendingWord, DescendingWord}) {
    GrowsOneByOne<Fixed64Codec>(make);
  }
}

TEST(InnerTreeTest, BytesGrow) {
  for (const MakeText make :
       {Plain, Dense, LongPrefix, OneOfThreePrefixes, Zeros, Short, Ascending, DescendingWord}) {
    GrowsOneByOne<BytesCodec>(make);
  }
}

TEST(InnerTreeTest, BytesFindKeysOutsideThePrefix) {
  Model<BytesCodec> model;
  for (uint64_t n = 0; n < 2000; ++n) model.Insert(LongPrefix(n));
  for (const char* text :
       {"a", "tenant:0007/user", "tenant:0007/user:", "tenant:0007/user;", "u",
        "tenant:0006/user:5", "tenant:0008", "tenant:0007/user:99999999", "\xff"}) {
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(text));
  }
}

// The right edge has no bound that its keys share: its prefix must be compared, and shrink.
TEST(InnerTreeTest, BytesRightEdgeMeetsAKeyWithoutItsPrefix) {
  Model<BytesCodec> model;
  for (uint64_t n = 0; n < 20; ++n) model.Insert("prefix/" + Ascending(n));
  ASSERT_NO_FATAL_FAILURE(model.ExpectFinds("zzz"));
  ASSERT_NO_FATAL_FAILURE(model.ExpectFinds("prefix/a"));
  model.Insert("q");
  model.Insert("a");
  model.ExpectAll();
  ASSERT_NO_FATAL_FAILURE(model.ExpectFinds("prefix/row000000000007x"));
  for (uint64_t n = 20; n < 200; ++n) model.Insert("r/" + Ascending(n));
  model.ExpectAll();
}

template <class C>
void TakesSeveralAtOnce(MakeText make) {
  std::mt19937_64 random(5);
  Model<C> model;
  for (uint64_t n = 0; n < 800; ++n) {
    std::vector<std::string> lows;
    for (uint64_t i = 0; i < 1 + random() % 7; ++i) lows.push_back(make(random() % 100000));
    std::sort(lows.begin(), lows.end());
    lows.erase(std::unique(lows.begin(), lows.end()), lows.end());
    ASSERT_NO_FATAL_FAILURE(model.Split(lows));
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(lows[0]));
  }
  EXPECT_GT(model.size(), 800u);
  model.ExpectAll();
}

TEST(InnerTreeTest, SeveralChildrenAtOnce) {
  TakesSeveralAtOnce<Fixed64Codec>(AscendingWord);
  TakesSeveralAtOnce<BytesCodec>(Ascending);
  TakesSeveralAtOnce<BytesCodec>(LongPrefix);
}

template <class C>
void Builds(MakeText make, size_t count) {
  std::vector<std::string> lows;
  for (uint64_t n = 0; n < count; ++n) lows.push_back(make(n));
  std::sort(lows.begin(), lows.end());
  lows.erase(std::unique(lows.begin(), lows.end()), lows.end());
  Model<C> model(lows);
  ASSERT_NO_FATAL_FAILURE(model.ExpectAll());
  for (uint64_t n = count; n < count + 200; ++n) ASSERT_NO_FATAL_FAILURE(model.Insert(make(n)));
  model.ExpectAll();
}

TEST(InnerTreeTest, BuiltFromAnyNumberOfChildren) {
  for (const size_t count : {0, 1, 2, 23, 24, 25, 47, 48, 49, 575, 576, 577, 20000}) {
    SCOPED_TRACE(count);
    Builds<Fixed64Codec>(Plain, count);
    Builds<BytesCodec>(LongPrefix, count);
    Builds<BytesCodec>(Ascending, count);
  }
}

TEST(InnerTreeTest, CountsItsNodes) {
  Model<Fixed64Codec> model;
  EXPECT_EQ(model.tree().node_count(), 1u);
  for (uint64_t n = 0; n < kInnerCapacity; ++n) model.Insert(AscendingWord(n));
  EXPECT_EQ(model.tree().node_count(), 1u);
  model.Insert(AscendingWord(kInnerCapacity));
  EXPECT_EQ(model.tree().node_count(), 3u);
}

// Maximum number of nodes for so many children, if each inner node has at least three.
uint64_t MostNodes(size_t children) { return 1 + children / 2; }

template <class C>
void GrowsAndShrinks(MakeText make) {
  Model<C> model;
  std::mt19937_64 random(8);
  for (int round = 0; round < 6; ++round) {
    for (uint64_t n = 0; n < 1500; ++n) model.Insert(make(random() % 4000));
    ASSERT_NO_FATAL_FAILURE(model.ExpectAll());
    const size_t kept = round % 2 == 0 ? 200 : 1;
    while (model.size() > kept) {
      ASSERT_TRUE(model.Remove(make(random() % 4000)));
      ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(make(random() % 4000)));
    }
    ASSERT_NO_FATAL_FAILURE(model.ExpectAll());
    EXPECT_LE(model.tree().node_count(), MostNodes(kept)) << "round " << round;
    if (kept == 1) model.ExpectNoSeparators();
  }
}

TEST(InnerTreeTest, ShrinksToItsRoot) {
  for (const MakeText make : {Plain, Dense, AscendingWord, DescendingWord}) {
    GrowsAndShrinks<Fixed64Codec>(make);
  }
  for (const MakeText make : {Plain, Dense, LongPrefix, OneOfThreePrefixes, Zeros, Ascending}) {
    GrowsAndShrinks<BytesCodec>(make);
  }
}

// A sliding window: the keys that it has passed leave nothing.
template <class C>
void KeepsAWindow(MakeText make, bool ascends) {
  constexpr uint64_t kAlive = 2000;
  constexpr uint64_t kPassed = 30 * kAlive;
  Model<C> model;
  const auto nth = [&](uint64_t n) { return make(ascends ? n + 1 : kPassed - n); };
  uint64_t after_one = 0;
  uint64_t dram_after_one = 0;
  for (uint64_t n = 0; n < kPassed; ++n) {
    model.Insert(nth(n));
    if (n < kAlive) continue;
    ASSERT_TRUE(model.Remove(nth(n - kAlive)));
    if (n != 2 * kAlive) continue;
    after_one = model.tree().node_count();
    dram_after_one = model.dram_bytes();
  }
  ASSERT_NO_FATAL_FAILURE(model.ExpectAll());
  EXPECT_LE(model.size(), kAlive + 1);
  EXPECT_LE(model.tree().node_count(), after_one * 12 / 10);
  EXPECT_LE(model.dram_bytes(), dram_after_one * 12 / 10);
}

TEST(InnerTreeTest, WindowLeavesNothingBehind) {
  for (const bool ascends : {true, false}) {
    SCOPED_TRACE(ascends);
    KeepsAWindow<Fixed64Codec>(AscendingWord, ascends);
    KeepsAWindow<BytesCodec>(AscendingWord, ascends);
    KeepsAWindow<BytesCodec>(Ascending, ascends);
  }
}

// A neighbour with many children is not joined by one with a single child: they share them.
TEST(InnerTreeTest, LonelyChildGetsSiblings) {
  Model<BytesCodec> model;
  for (uint64_t n = 0; n < kInnerCapacity + 1; ++n) model.Insert(Ascending(10 * n + 10));
  ASSERT_EQ(model.tree().node_count(), 3u);
  for (uint64_t n = 150; model.size() < 48; ++n) model.Insert(Ascending(10 * n + 5));
  for (uint64_t n = 0; n < 16; ++n) {
    ASSERT_TRUE(model.Remove(Ascending(1)));
    ASSERT_NO_FATAL_FAILURE(model.ExpectAll());
  }
}

// A reader with a valid view has a node whose low is not above the key, and never an older node
// than it had before: nodes only split.
template <class C>
void ReadsBesideAWriter(MakeText make) {
  constexpr uint64_t kKeys = 4000;
  Model<C> model;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      std::map<std::string, std::string> seen;
      for (uint64_t n = Mix(static_cast<uint64_t>(r)); !stop; ++n) {
        const std::string text = make(Mix(n) % 500);
        uint64_t snapshot;
        const std::string& low = model.tree().Descend(C::MakeKey(text), &snapshot)->low;
        std::string& last = seen[text];
        if (low > text || low < last) wrong.fetch_add(1);
        last = low;
        reads.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (uint64_t n = 0; n < kKeys; ++n) model.Insert(make(n));
  while (reads.load() < 1000) std::this_thread::yield();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0u);
  model.ExpectAll();
}

// Nodes that are added and removed under their locks, so that a reader can tell whether its view is
// valid. By number: a key is at or above its node's number and below the next one's.
template <class C>
class Shrinking {
 public:
  using Tree = InnerTree<C, Below>;
  static constexpr uint64_t kKeys = 5000;  // so that there are shortcuts at times

  explicit Shrinking(MakeText make) : make_(make) {
    const typename Tree::Child child{C::MinusInfinity(), New()};
    map_[0] = child.node;
    tree_.Build({&child, 1});
  }

  // False: a valid view had a node that does not cover the key.
  bool Read(uint64_t wanted) const {
    const std::string text = make_(wanted);
    uint64_t snapshot;
    const Below* below = tree_.Descend(C::MakeKey(text), &snapshot);
    const uint64_t low = low_of_[NumberOf(below)].load(std::memory_order_relaxed);
    return !below->lock.Validate(snapshot) || low <= wanted;
  }

  // The same of several keys at once.
  bool ReadEach(const std::vector<uint64_t>& wanted) const {
    std::vector<std::string> texts;
    for (const uint64_t number : wanted) texts.push_back(make_(number));
    std::vector<typename C::Key> keys;
    for (const std::string& text : texts) keys.push_back(C::MakeKey(text));
    bool right = true;
    tree_.template DescendEach<SearchByPointer>(
        keys.size(), [&](size_t i) -> const typename C::Key& { return keys[i]; },
        [&](size_t i, const Below* below, uint64_t snapshot) {
          const uint64_t low = low_of_[NumberOf(below)].load(std::memory_order_relaxed);
          right &= !below->lock.Validate(snapshot) || low <= wanted[i];
        });
    return right;
  }

  void Insert(uint64_t low) {
    if (map_.contains(low)) return;
    Below* below = New();
    low_of_[NumberOf(below)].store(low, std::memory_order_relaxed);
    map_[low] = below;
    const std::string text = make_(low);
    const auto key = C::MakeKey(text);
    auto* parent = tree_.LockParent(key);
    const typename Tree::Child added{Format<C>::Separator(texts_, text), below};
    tree_.InsertAndUnlock(parent, key, {&added, 1});
  }

  void Remove(uint64_t number) {
    const auto at = std::prev(map_.upper_bound(number));
    if (at == map_.begin()) return;
    const std::string text = make_(at->first);
    const auto key = C::MakeKey(text);
    typename Tree::Node* parent;
    Below* below = at->second;
    if (tree_.LockForRemoval(key, below, Tree::Heir::kLeft, &parent) != Tree::Attempt::kDone)
      return;
    ASSERT_TRUE(below->lock.TryLock());
    below->lock.BeginPublish();
    tree_.RemoveAndUnlock(parent, key);
    below->lock.EndPublish();
    below->lock.Unlock();
    map_.erase(at);
    spare_.push_back(below);
    ASSERT_TRUE(tree_.Shrink(key));
  }

  void ExpectAll() const {
    for (const auto& [low, below] : map_) {
      const std::string text = make_(low);
      uint64_t snapshot;
      ASSERT_EQ(tree_.Descend(C::MakeKey(text), &snapshot), below);
    }
  }

 private:
  static size_t NumberOf(const Below* below) {
    return static_cast<size_t>(std::stoull(below->low));
  }
  Below* New() {
    if (spare_.empty()) {
      Below& below = nodes_.emplace_back();
      below.low = std::to_string(nodes_.size() - 1);
      return &below;
    }
    Below* below = spare_.back();
    spare_.pop_back();
    return below;
  }

  const MakeText make_;
  DramArena dram_;
  SeparatorTexts texts_{dram_, [this](SeparatorTexts::Batch gone) { texts_.Free(gone); }};
  Tree tree_{dram_, texts_};
  std::deque<Below> nodes_;
  std::vector<Below*> spare_;
  std::vector<std::atomic<uint64_t>> low_of_ = std::vector<std::atomic<uint64_t>>(kKeys + 1);
  std::map<uint64_t, Below*> map_;
};

// Inner nodes are joined, split and reused constantly, and so is the root.
template <class C>
void ReadsBesideShrinking(MakeText make) {
  constexpr uint64_t kKeys = Shrinking<C>::kKeys;
  Shrinking<C> tree(make);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (uint64_t r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      for (uint64_t n = Mix(r); !stop; ++n) {
        if (!tree.Read(Mix(n) % kKeys)) wrong.fetch_add(1);
        std::vector<uint64_t> several;
        for (uint64_t i = 0; i < 20; ++i) several.push_back(Mix(n + i) % kKeys);
        if (!tree.ReadEach(several)) wrong.fetch_add(1);
        reads.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::mt19937_64 random(9);
  for (int round = 0; round < 40; ++round) {
    for (uint64_t n = 0; n < kKeys; ++n) tree.Insert(random() % kKeys);
    for (uint64_t n = 0; n < 4 * kKeys; ++n) tree.Remove(random() % kKeys);
  }
  while (reads.load() < 1000) std::this_thread::yield();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0u);
  tree.ExpectAll();
}

TEST(InnerTreeTest, DescentsForWordsBeginBelowTheRoot) {
  Model<Fixed64Codec> model;
  for (uint64_t n = 0; n < 300; ++n) model.Insert(Plain(n));
  uint64_t version;
  const auto shortcut = [&](uint64_t n) {
    return model.tree().shortcuts().At(Fixed64Codec::MakeKey(Plain(n)))(&version);
  };
  EXPECT_EQ(shortcut(1), nullptr) << "a low tree";
  for (uint64_t n = 300; n < 6000; ++n) model.Insert(Plain(n));
  ASSERT_NO_FATAL_FAILURE(model.ExpectAll());
  unsigned lowest = 0;
  for (uint64_t n = 0; n < 6000; ++n) {
    const auto* node = shortcut(n);
    if (node != nullptr && node->level == Shortcuts<InnerNode<Fixed64Codec>>::kLowest) ++lowest;
  }
  EXPECT_GT(lowest, 4000U);
}

TEST(InnerTreeTest, AShortcutIsNotTakenOnceItsNodeHasSplit) {
  Model<Fixed64Codec> model;
  for (uint64_t n = 0; n < 2000; ++n) model.Insert(Plain(n));
  for (uint64_t n = 2000; n < 8000; ++n) {
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(Plain(Mix(n))));
    model.Insert(Plain(n));
    ASSERT_NO_FATAL_FAILURE(model.ExpectFinds(Plain(n)));
  }
  model.ExpectAll();
}

TEST(InnerTreeTest, ReadersBesideShrinking) {
  ReadsBesideShrinking<Fixed64Codec>(AscendingWord);
  ReadsBesideShrinking<BytesCodec>(Ascending);
}

TEST(InnerTreeTest, ReadersBesideAWriter) {
  ReadsBesideAWriter<Fixed64Codec>(Plain);
  ReadsBesideAWriter<BytesCodec>(LongPrefix);
}

}  // namespace
}  // namespace lodgekv
