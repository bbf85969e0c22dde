#include "index/lodgetree/key_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "index/node/codec.h"

namespace lodgekv::lodgetree {
namespace {

template <class C>
class Sorted {
 public:
  explicit Sorted(const std::vector<std::string>& keys, bool latest_first = false) {
    for (const std::string& key : keys) ops_.push_back({.kind = WriteKind::kPut, .key = key});
    const KeyOrder<C> order(ops_);
    for (uint32_t i = 0; i < keys.size(); ++i) places_.push_back(order.PlaceOf(i));
    order.Sort(places_, latest_first);
  }

  std::vector<uint32_t> Ops() const {
    std::vector<uint32_t> ops;
    for (const auto& place : places_) ops.push_back(place.op);
    return ops;
  }
  size_t FirstRepeated() const { return KeyOrder<C>(ops_).FirstRepeated(places_); }
  void ExpectKeys() const {
    for (const auto& place : places_) {
      const auto made = C::MakeKey(ops_[place.op].key);
      const auto kept = KeyOrder<C>(ops_).KeyOf(place);
      EXPECT_EQ(kept.word, made.word);
      EXPECT_EQ(kept.hash, made.hash);
    }
  }

 private:
  std::vector<WriteOp> ops_;
  std::vector<typename KeyOrder<C>::Place> places_;
};

using Numbers = std::vector<uint32_t>;
constexpr size_t kNone = SIZE_MAX;

TEST(KeyOrderTest, WordsAreOrderedAndKeysOfOneWordByTheCall) {
  const std::vector<std::string> keys = {"dddddddd", "aaaaaaaa", "dddddddd", "bbbbbbbb"};
  const Sorted<Fixed64Codec> sorted(keys);
  EXPECT_EQ(sorted.Ops(), (Numbers{1, 3, 0, 2}));
  EXPECT_EQ(Sorted<Fixed64Codec>(keys, /*latest_first=*/true).Ops(), (Numbers{1, 3, 2, 0}));
  EXPECT_EQ(sorted.FirstRepeated(), 0u);
  sorted.ExpectKeys();
}

// Keys whose first eight bytes are equal, with the padding too, differ behind them.
TEST(KeyOrderTest, EqualWordsAreDecidedByTheText) {
  const std::string zero("user0001\0", 9);
  const std::vector<std::string> keys = {"user0001b", "user0001", "user0001a", zero, "user0001a"};
  const Sorted<BytesCodec> sorted(keys);
  EXPECT_EQ(sorted.Ops(), (Numbers{1, 3, 2, 4, 0}));
  EXPECT_EQ(sorted.FirstRepeated(), 2u);
  sorted.ExpectKeys();
}

TEST(KeyOrderTest, TheFirstOfTheCallThatIsRepeatedIsFound) {
  EXPECT_EQ(Sorted<BytesCodec>({"a"}).FirstRepeated(), kNone);
  EXPECT_EQ(Sorted<BytesCodec>({"c", "b", "a"}).FirstRepeated(), kNone);
  EXPECT_EQ(Sorted<BytesCodec>({"x", "c", "b", "b", "c"}).FirstRepeated(), 1u);
  EXPECT_EQ(Sorted<BytesCodec>({"x", "c", "b", "c", "b", "c"}).FirstRepeated(), 1u);
}

}  // namespace
}  // namespace lodgekv::lodgetree
