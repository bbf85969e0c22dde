// States that only an unlucky order of several threads' steps leads to, made here
// by calling their parts one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <map>
#include <thread>
#include <utility>

#include "index/node/engine_test_util.h"
#include "index/tlbtree/tlbtree_test_util.h"

namespace lodgekv::tlbtree {

namespace {

// Anchors as they are linked.
template <class C>
std::vector<pmem::Offset> AnchorsOf(TreeState<C>& tree) {
  std::vector<pmem::Offset> all;
  for (pmem::Offset at = tree.first_anchor(); at != 0;) {
    all.push_back(at);
    at = AnchorView::Of(*tree.AnchorAt(at)).next;
  }
  return all;
}

// A pair written without what AfterWrite does, which is another thread's turn here.
template <class C>
Outcome PutOnly(PairWriter<C>& writer, std::string_view text, Pair pair) {
  const typename C::Key key = C::MakeKey(text);
  LockedLeaf<C> held = writer.Lock(key, false);
  const Outcome outcome = writer.Put(held, key, pair);
  held.Unlock();
  return outcome;
}

const TestEngine::Options kSmall = {{"leaf_slots", "4"}, {"node_slots", "3"}};

// All slots that the new options use stay valid after the split: the pair must find a place.
TEST(InterleavingTest, AFullLeafTakesAPairWhenFewerSlotsAreUsed) {
  for (const char* slots : {"4", "5", "6", "8"}) {
    TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64);
    for (uint64_t i = 1; i <= 13; ++i) ASSERT_EQ(tree.Put(Text(10 * i), Text(i)), Outcome::kOk);
    tree.KillAndRecoverWith({{"leaf_slots", slots}});
    ASSERT_EQ(tree.Put(Text(15), Text(77)), Outcome::kOk);
    EXPECT_EQ(tree.Get(Text(15)), Text(77)) << slots;
    for (uint64_t i = 1; i <= 13; ++i) EXPECT_EQ(tree.Get(Text(10 * i)), Text(i));
    tree.ExpectSound();
  }
}

// The sweep stands at an anchor that is new since the pool was opened, when that dies, is freed by
// a rebuild, and becomes one at the other end of the chain: the anchors between are not marked.
TEST(InterleavingTest, TheSweepDoesNotFollowAFreedAnchor) {
  CallingTracer tracer("", [] {});
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64, kSmall);
  constexpr uint64_t kKeys = 400;
  uint64_t end = 0;
  for (uint64_t i = 1; i <= kKeys; ++i) ASSERT_EQ(tree.Put(Text(1000 * i), Text(i)), Outcome::kOk);
  tree.arena().options().tracer = &tracer;
  tree.KillAndRecover();
  {
    TreeState<Fixed64Codec>& state = FixedState(tree);
    PairWriter<Fixed64Codec> writer(state);
    SubIndices<Fixed64Codec> sub_indices(state);
    const auto old = AnchorsOf(state);
    ASSERT_GT(old.size(), 10u);
    // The first sub-index splits.
    uint64_t next = 1001;
    for (; AnchorsOf(state).size() == old.size(); ++next) {
      ASSERT_EQ(PutOnly(writer, Text(next), Pair{next, 1}), Outcome::kOk);
      sub_indices.List({Text(next)});
    }
    const pmem::Offset made = AnchorsOf(state)[1];
    ASSERT_TRUE(state.sweep.SettleSome(1));  // it stands at `made`
    // That dies, with others: emptied, so that the sub-index to the left takes them.
    LeafMerger<Fixed64Codec> merger(state);
    end = AnchorView::Of(*state.AnchorAt(old[5])).low.word;
    for (uint64_t key = 1; key < end; ++key) {
      const auto k = Fixed64Codec::MakeKey(Text(key));
      if (key > next && key % 1000 != 0) continue;
      auto held = writer.Lock(k, false);
      if (held.found()) writer.Remove(held, k);
      held.Unlock();
    }
    for (int round = 0; round < 50; ++round) {
      for (uint64_t key = 0; key < end; key += key < next ? 1 : 500) merger.Merge(Text(key));
    }
    const auto dropped = state.top.DroppedAnchors();
    ASSERT_NE(std::ranges::find(dropped, made), dropped.end());
    TopRebuild<Fixed64Codec>(state).Request();  // in place
    // Splits at the right end.
    for (uint64_t key = 1000 * kKeys + 1; key < 1000 * kKeys + 200; ++key) {
      const auto all = AnchorsOf(state);
      if (std::ranges::find(all, made) != all.end()) break;
      ASSERT_EQ(PutOnly(writer, Text(key), Pair{key, 1}), Outcome::kOk);
      sub_indices.List({Text(key)});
    }
    (void)state.rest.FinishNow();
    EXPECT_TRUE(state.sweep.status().ok()) << state.sweep.status();
  }
  tree.ExpectSound();
  for (uint64_t i = end / 1000 + 1; i <= kKeys; ++i) {
    EXPECT_EQ(tree.Get(Text(1000 * i)), Text(i));
  }
  tree.arena().options().tracer = nullptr;
  tree.KillAndRecover();
}

// A thread that finds no space ends the sweep while the rebuild is at work: an anchor that has died
// since the pool was opened is freed once.
TEST(InterleavingTest, TheSweepDropsNoAnchorThatARebuildFrees) {
  TestEngine* engine = nullptr;
  bool armed = false;
  CallingTracer tracer("tlbtree.rebuild.1", [&] {
    if (std::exchange(armed, false)) (void)FixedState(*engine).rest.FinishNow();
  });
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64, kSmall);
  engine = &tree;
  constexpr uint64_t kKeys = 4000;
  for (uint64_t i = 1; i <= kKeys; ++i)
    ASSERT_EQ(tree.Put(Text(1000 * (i * 1237 % kKeys)), Text(i)), Outcome::kOk);
  for (int i = 0; i < 200 && tree.Counters()["rebuilds_total"] == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_GT(tree.Counters()["top_entries"], 50u);
  tree.arena().options().tracer = &tracer;
  tree.KillAndRecover();
  {
    TreeState<Fixed64Codec>& state = FixedState(tree);
    PairWriter<Fixed64Codec> writer(state);
    LeafMerger<Fixed64Codec> merger(state);
    for (uint64_t i = 0; i < kKeys / 4; ++i) {
      const auto key = Fixed64Codec::MakeKey(Text(1000 * i));
      auto held = writer.Lock(key, false);
      if (held.found()) writer.Remove(held, key);
      held.Unlock();
    }
    for (int round = 0; round < 20; ++round) {
      for (uint64_t i = 0; i < kKeys / 4; ++i) merger.Merge(Text(1000 * i));
    }
    ASSERT_GT(state.top.dropped(), 10u);
    armed = true;
    TopRebuild<Fixed64Codec>(state).Request();
    (void)state.rest.FinishNow();
    TopRebuild<Fixed64Codec>(state).Request();
    EXPECT_EQ(state.top.dropped(), 0u);
  }
  tree.ExpectSound();
  tree.arena().options().tracer = nullptr;
  tree.KillAndRecover();
}

std::string Long(uint64_t i) {
  char text[64];
  std::snprintf(text, sizeof(text), "a-prefix-that-all-keys-share/%08lu/end", i);
  return text;
}

// The bound of a leaf is that of its anchor, whose record goes with the anchor while the leaf stays
// as it was: a writer that has found the leaf before still splits it.
TEST(InterleavingTest, ALeafThatWasFoundByAnAnchorThatDiedCanSplit) {
  CallingTracer tracer("", [] {});
  TestEngine tree(GetEngineInfo(), KeyFormat::kBytes, kSmall);
  tree.arena().options().tracer = &tracer;
  tree.KillAndRecover();
  uint64_t i = 0;
  {
    TreeState<BytesCodec>& state = BytesState(tree);
    // The last sub-index has one full leaf.
    for (;; ++i) {
      ASSERT_EQ(tree.Put(Long(10 * i), "v"), Outcome::kOk);
      const auto all = AnchorsOf(state);
      if (all.size() < 4) continue;
      const AnchorView last = AnchorView::Of(*state.AnchorAt(all.back()));
      const NodeState leaf(state.NodeAt(last.root.node)->state.Load());
      if (last.root.height == 1 && leaf.count() == 4) break;
    }
    (void)state.rest.FinishNow();
    // There is room in the one to its left.
    for (uint64_t gone = i - 11; gone < i - 4; ++gone)
      ASSERT_EQ(tree.Delete(Long(10 * gone)), Outcome::kOk);
    const size_t anchors = AnchorsOf(state).size();
    const pmem::Offset anchor = AnchorsOf(state).back();
    const AnchorView last = AnchorView::Of(*state.AnchorAt(anchor));
    ASSERT_EQ(last.root.height, 1u);
    PairWriter<BytesCodec> writer(state);
    const std::string text = Long(10 * i - 5);
    const auto key = BytesCodec::MakeKey(text);
    const auto seen = writer.Seek(key);
    ASSERT_EQ(seen.low, last.low);
    // Another thread tidies up, and the top layer is built anew.
    SubIndices<BytesCodec> sub_indices(state);
    ASSERT_TRUE(sub_indices.MergeSubIndex(text));
    sub_indices.List({text});
    ASSERT_EQ(AnchorsOf(state).size(), anchors - 1);
    TopRebuild<BytesCodec>(state).Request();
    ASSERT_EQ(state.top.dropped(), 0u);
    // The record's space gets other records.
    std::string other = "z";
    char scratch[8];
    const uint64_t size = TextOfLow(state.pool, last.low, scratch).size();
    while (other.size() < size) other.push_back('z');
    for (int n = 0; n < 4; ++n) {
      Low low;
      ASSERT_TRUE(MakeLow(state, other, pmem::ReservePolicy::kKeep, &low));
    }
    auto held = writer.Lock(key, false, seen);
    ASSERT_EQ(held.leaf, seen.leaf);
    ASSERT_EQ(held.low, last.low);  // as it was seen
    WriteResult result;
    PendingOp<BytesCodec> pending;
    const WriteOp op{.kind = WriteKind::kPut, .key = text, .value = "v"};
    writer.stages().Begin(op, &result, &pending);
    ASSERT_EQ(writer.stages().Stage(&pending), Outcome::kOk);
    writer.stages().Finish(&pending);
    EXPECT_EQ(writer.Put(held, key, pending.staged.pair), Outcome::kOk);
    held.Unlock();
  }
  tree.arena().options().tracer = nullptr;
  tree.KillAndRecover();
}

// A key of one of several groups whose separators need records of different sizes.
std::string InGroup(unsigned group, size_t length, unsigned i) {
  char digits[8];
  std::snprintf(digits, sizeof(digits), "%04u", i);
  return std::string(1, static_cast<char>('a' + group)) + std::string(length, 'x') + digits;
}

// A batch that splits leaves in a full pool: all of it is done, or nothing.
TEST(InterleavingTest, ABatchInAFullPoolIsAtomicWhateverItsBoundsNeed) {
  constexpr size_t kClasses[] = {256, 320,  384,  448,  512,  640,  768,
                                 896, 1024, 1280, 1536, 1792, 2048, 2560};
  constexpr unsigned kGroups = std::size(kClasses);
  TestEngine tree(GetEngineInfo(), KeyFormat::kBytes);
  const auto length = [&](unsigned group) { return kClasses[group] - 40; };
  for (unsigned group = 0; group < kGroups; ++group) {
    for (unsigned i = 0; i < 36; ++i)
      ASSERT_EQ(tree.Put(InGroup(group, length(group), 10 * i), "v"), Outcome::kOk);
  }
  TreeState<BytesCodec>& state = BytesState(tree);
  constexpr auto kKeep = pmem::ReservePolicy::kKeep;
  std::vector<std::string> keys;
  std::vector<pmem::Offset> wanted = {state.slab.Allocate((4 + 3 * kGroups) * 8, kKeep)};
  for (unsigned group = 0; group < kGroups; ++group) {
    keys.push_back(InGroup(group, length(group), 185));
    wanted.push_back(state.slab.Allocate(RecordBytes(keys.back().size(), 1, false), kKeep));
  }
  std::vector<pmem::Offset> leaves;
  for (unsigned i = 0; i < 2 * kGroups; ++i) leaves.push_back(state.nodes.Allocate(kKeep));
  for (size_t bytes = 32768; bytes >= 32; bytes -= 16) {
    while (state.slab.Allocate(bytes, kKeep) != 0) {
    }
  }
  for (const pmem::Offset record : wanted) state.slab.Free(record);
  for (const pmem::Offset leaf : leaves) state.nodes.Free(leaf);
  std::vector<WriteOp> ops;
  for (const std::string& key : keys)
    ops.push_back({.kind = WriteKind::kPut, .key = key, .value = "w"});
  const Outcome outcome = tree.Write(ops, {.atomic = true});
  unsigned done = 0;
  for (const std::string& key : keys) {
    ReadResult result;
    const std::string_view text = key;
    EXPECT_EQ(tree.engine().Read({&text, 1}, {&result, 1}, {}), Outcome::kOk);
    done += result.found ? 1 : 0;
  }
  EXPECT_EQ(done, outcome == Outcome::kOk ? kGroups : 0u) << static_cast<int>(outcome);
  // The pool is full: nothing that a pair leads to is free.
  for (const std::string& key : keys) {
    uint64_t value = 0;
    const bool found =
        Lookups<BytesCodec>(state).FindValueWord<SearchByPointer>(BytesCodec::MakeKey(key), &value);
    const pmem::Offset free =
        state.slab.Allocate(RecordBytes(key.size(), 1, false), pmem::ReservePolicy::kUse);
    EXPECT_FALSE(found && free == BytesCodec::RecordOf(value)) << key[0];
  }
}

// A batch that a crash has interrupted in a full pool is done again with the reserve, too.
TEST(InterleavingTest, AnInterruptedBatchIsDoneAgainInAFullPool) {
  TestEngine* engine = nullptr;
  std::vector<std::byte> crashed;
  CallingTracer tracer("node.batch_intent.2", [&] {
    crashed.assign(engine->arena().data(), engine->arena().data() + engine->arena().size());
  });
  TestEngine tree(GetEngineInfo(), KeyFormat::kBytes);
  engine = &tree;
  constexpr size_t kLength = 1500;
  for (unsigned i = 0; i < 36; ++i)
    ASSERT_EQ(tree.Put(InGroup(0, kLength, 10 * i), "v"), Outcome::kOk);
  const auto filler = [](char kind, unsigned i) {
    char text[16];
    std::snprintf(text, sizeof(text), "%c%05u", kind, i);
    return std::string(text);
  };
  constexpr unsigned kFillers = 6000;
  for (unsigned i = 0; i < kFillers; ++i) ASSERT_EQ(tree.Put(filler('m', i), ""), Outcome::kOk);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_EQ(tree.Put(filler('z', i), ""), Outcome::kOk);
  tree.arena().options().tracer = &tracer;
  tree.KillAndRecover();
  unsigned next = 0;
  std::multimap<size_t, unsigned> last;
  for (size_t bytes = 32768; bytes >= 48; bytes -= 16) {
    for (; next < kFillers; ++next) {
      if (tree.Put(filler('m', next), std::string(bytes - 30, 'v')) != Outcome::kOk) break;
      last.emplace(bytes, next);
    }
  }
  ASSERT_LT(next, kFillers);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_EQ(tree.Delete(filler('z', i)), Outcome::kOk);
  const std::string key = InGroup(0, kLength, 185);
  const auto free_one = [&](size_t at_most, size_t least) {
    for (auto at = last.begin(); at != last.end(); ++at) {
      if (at->first > at_most || at->first < least) continue;
      EXPECT_EQ(tree.Delete(filler('m', at->second)), Outcome::kOk);
      last.erase(at);
      return true;
    }
    return false;
  };
  // Space for the pair, its leaf's bound, and the intent, of which the others are a part.
  ASSERT_TRUE(free_one(5800, 1536));
  ASSERT_TRUE(free_one(5800, 1536));
  ASSERT_TRUE(free_one(5800, 1536));
  std::vector<std::string> others;
  std::vector<WriteOp> ops = {{.kind = WriteKind::kPut, .key = key, .value = "w"}};
  for (unsigned i = 1; i <= 60; ++i) others.push_back(filler('m', kFillers - i));
  for (const std::string& other : others)
    ops.push_back({.kind = WriteKind::kPut, .key = other, .value = ""});
  ASSERT_EQ(tree.Write(ops, {.atomic = true}), Outcome::kOk);
  ASSERT_FALSE(crashed.empty());
  std::copy(crashed.begin(), crashed.end(), tree.arena().data());
  tree.arena().options().tracer = nullptr;
  tree.KillAndRecover();
  EXPECT_EQ(tree.Get(key), "w");
}

// A crash has left a dead anchor. Before it is unlinked, the sub-index to the right of it goes to
// the one to its left.
TEST(InterleavingTest, ADeadAnchorThatAMergeSkipsIsFreed) {
  CallingTracer tracer("", [] {});
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64, {{"leaf_slots", "4"}, {"height", "1"}});
  for (uint64_t i = 1; i <= 40; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  for (uint64_t i = 13; i <= 16; ++i) ASSERT_EQ(tree.Delete(Text(i)), Outcome::kOk);
  {
    TreeState<Fixed64Codec>& state = FixedState(tree);
    const auto all = AnchorsOf(state);
    ASSERT_GE(all.size(), 5u);
    // As after the first step of a merge.
    AnchorPlace place;
    ASSERT_TRUE(Descent<Fixed64Codec>(state).ViewAnchor(all[2], &place));
    AnchorRoot dead = place.view.root;
    dead.dead = true;
    AnchorWriter<Fixed64Codec>(state).Change(&place, {dead, {}});
  }
  tree.arena().options().tracer = &tracer;
  tree.KillAndRecover();
  {
    TreeState<Fixed64Codec>& state = FixedState(tree);
    (void)state.rest.FinishNow();
    const auto all = AnchorsOf(state);
    PairWriter<Fixed64Codec> writer(state);
    SubIndices<Fixed64Codec> sub_indices(state);
    // One thread has taken the notice of it, and another one merges.
    const auto texts = state.sweep.TakeDead();
    ASSERT_EQ(texts.size(), 1u);
    const uint64_t low = AnchorView::Of(*state.AnchorAt(all[3])).low.word;
    for (uint64_t i = low; i < low + 4; ++i) {
      const auto key = Fixed64Codec::MakeKey(Text(i));
      auto held = writer.Lock(key, false);
      if (held.found()) writer.Remove(held, key);
      held.Unlock();
    }
    ASSERT_TRUE(sub_indices.MergeSubIndex(Text(low)));
    for (const std::string& text : texts) sub_indices.DropDead(text);
  }
  tree.ExpectSound();
  tree.arena().options().tracer = nullptr;
  tree.KillAndRecover();
}

}  // namespace
}  // namespace lodgekv::tlbtree
