// The top layer alone, with Mnodes that have no leaves: what it finds covers the key at the version
// returned, beside a thread that splits and merges Mnodes as the engine does.
#include "index/sptree/top_layer.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "index/node/codec.h"

namespace lodgekv::sptree {
namespace {

using C = Fixed64Codec;

class Chain {
 public:
  static constexpr size_t kMnodes = 60;
  // Few bits of several bytes: nodes that fork, and searches that go back.
  static uint64_t LowOf(size_t i) { return (i & 3) << 8 | (i >> 2 & 3) << 24 | i >> 4 << 40; }

  Chain() : mnodes_(kMnodes) {
    for (auto& in_tree : in_tree_) in_tree = false;
    in_tree_[0] = true;
    mnodes_[0].low = 0;
    Mnode<C>* first = mnodes_.data();
    top_.Build({&first, 1});
  }

  const TopLayer<C>& top() const { return top_; }

  void Change(size_t i) {
    Mnode<C>& left = mnodes_[LeftOf(i)];
    if (in_tree_[i]) {
      Merge(left, i);
    } else {
      Split(left, i);
    }
  }

  // Whether the Mnode was in the tree, and covered the key, when its version was taken.
  bool IsRight(const C::Key& key, const Mnode<C>& mnode, uint64_t snapshot, bool before) const {
    const OptimisticSection section;
    const size_t i = static_cast<size_t>(&mnode - mnodes_.data());
    const uint64_t covered = before && key.word > 0 ? key.word - 1 : key.word;
    const bool right = in_tree_[i] && mnode.Covers(C::KeyOfWord(covered));
    return right || !mnode.lock.Validate(snapshot);
  }

 private:
  size_t LeftOf(size_t i) const {
    do {
      --i;
    } while (!in_tree_[i]);
    return i;
  }

  void Split(Mnode<C>& left, size_t i) {
    Mnode<C>& added = mnodes_[i];
    added.lock.InitLocked();
    added.low = LowOf(i);
    added.high = left.high;
    added.right = left.right;
    in_tree_[i] = true;
    top_.Insert(&added);
    left.lock.BeginPublish();
    left.high = added.low;
    left.right = &added;
    left.lock.EndPublish();
    added.lock.Unlock();
  }

  void Merge(Mnode<C>& left, size_t i) {
    Mnode<C>& gone = mnodes_[i];
    left.lock.BeginPublish();
    gone.lock.BeginPublish();
    left.high = gone.high;
    left.right = gone.right;
    in_tree_[i] = false;
    top_.Remove(&gone);
    left.lock.EndPublish();
    gone.lock.EndPublish();
  }

  DramArena dram_;
  TopLayer<C> top_{dram_};
  std::vector<Mnode<C>> mnodes_;
  std::array<std::atomic<bool>, kMnodes> in_tree_;
};

C::Key RandomKey(std::mt19937_64& random) {
  const uint64_t low = Chain::LowOf(random() % Chain::kMnodes);
  return C::KeyOfWord(low + random() % 3 - (low == 0 ? 0 : 1));
}

uint64_t WrongAnswers(const Chain& chain, std::mt19937_64& random) {
  uint64_t wrong = 0;
  uint64_t snapshot;
  const C::Key key = RandomKey(random);
  const Mnode<C>* found = chain.top().Find(key, &snapshot);
  wrong += chain.IsRight(key, *found, snapshot, false) ? 0 : 1;
  found = chain.top().FindBefore(key, &snapshot);
  wrong += chain.IsRight(key, *found, snapshot, true) ? 0 : 1;
  std::array<C::Key, 5> keys;
  for (C::Key& each : keys) each = RandomKey(random);
  chain.top().FindEach<SearchByPointer>(
      keys.size(), [&](size_t i) -> const C::Key& { return keys[i]; },
      [&](size_t i, const Mnode<C>* mnode, uint64_t version) {
        wrong += chain.IsRight(keys[i], *mnode, version, false) ? 0 : 1;
      });
  return wrong;
}

TEST(TopLayerTest, FindsWhatCoversTheKeyBesideSplitsAndMerges) {
  constexpr uint64_t kReads = 100'000;
  Chain chain;
  std::atomic<bool> reading{true};
  std::thread writer([&] {
    std::mt19937_64 random(1);
    while (reading.load()) chain.Change(1 + random() % (Chain::kMnodes - 1));
  });
  std::mt19937_64 random(2);
  uint64_t wrong = 0;
  for (uint64_t n = 0; n < kReads; ++n) wrong += WrongAnswers(chain, random);
  reading = false;
  writer.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(TopLayerTest, TheFirstAndTheLastAreFound) {
  Chain chain;
  for (size_t i = 1; i < Chain::kMnodes; ++i) chain.Change(i);
  uint64_t snapshot;
  EXPECT_EQ(chain.top().FindLast(&snapshot)->low, Chain::LowOf(Chain::kMnodes - 1));
  EXPECT_EQ(chain.top().FindBefore(C::KeyOfWord(0), &snapshot)->low, 0u);
  EXPECT_EQ(chain.top().FindBefore(C::KeyOfWord(Chain::LowOf(9)), &snapshot)->low, Chain::LowOf(8));
  EXPECT_EQ(chain.top().Find(C::KeyOfWord(Chain::LowOf(9)), &snapshot)->low, Chain::LowOf(9));
}

// Called once by the thread that waits for a lock.
std::function<void()> meanwhile;

void RunMeanwhile() {
  Backoff::waiter = nullptr;
  meanwhile();
}

// While `find` takes the version of the Mnode that the radix tree has found, that is split, and its
// right half covers the key. That changes another node than the one which has shown the Mnode: only
// the bounds tell.
template <class Find>
void FindsTheRightHalf(Find find) {
  constexpr uint64_t kLows[] = {0, uint64_t{1} << 56, uint64_t{0x101} << 48, uint64_t{4} << 56};
  DramArena dram;
  TopLayer<C> top(dram);
  std::vector<Mnode<C>> mnodes(4);
  Mnode<C>* all[3];
  for (size_t i = 0; i < 4; ++i) mnodes[i].low = kLows[i];
  for (size_t i = 0; i < 3; ++i) {
    all[i] = &mnodes[i];
    mnodes[i].high = i < 2 ? kLows[i + 1] : 0;
    mnodes[i].right = i < 2 ? &mnodes[i + 1] : nullptr;
  }
  top.Build(all);
  mnodes[2].lock.BeginPublish();
  meanwhile = [&] {
    top.Insert(&mnodes[3]);
    mnodes[2].high = mnodes[3].low;
    mnodes[2].right = &mnodes[3];
    mnodes[2].lock.EndPublish();
  };
  Backoff::waiter = RunMeanwhile;
  EXPECT_EQ(find(top, C::KeyOfWord(uint64_t{5} << 56)), &mnodes[3]);
  EXPECT_EQ(Backoff::waiter.load(), nullptr) << "nothing was waited for";
}

TEST(TopLayerTest, AnMnodeThatIsSplitMeanwhileIsNotTheKeys) {
  uint64_t snapshot;
  FindsTheRightHalf([&](const auto& top, const C::Key& key) { return top.Find(key, &snapshot); });
  FindsTheRightHalf(
      [&](const auto& top, const C::Key& key) { return top.FindBefore(key, &snapshot); });
  FindsTheRightHalf([&](const auto& top, const C::Key&) { return top.FindLast(&snapshot); });
  FindsTheRightHalf([&](const auto& top, const C::Key& key) {
    const Mnode<C>* found = nullptr;
    top.template FindEach<SearchByPointer>(
        1, [&](size_t) -> const C::Key& { return key; },
        [&](size_t, const Mnode<C>* mnode, uint64_t) { found = mnode; });
    return found;
  });
}

}  // namespace
}  // namespace lodgekv::sptree
