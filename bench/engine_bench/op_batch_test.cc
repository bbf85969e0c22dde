#include "bench/engine_bench/op_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <unordered_set>

namespace lodgekv::bench {
namespace {

constexpr uint64_t kSeed = 3;
constexpr uint64_t kKeys = 50'000;

std::vector<KeyRef> Refs(uint64_t count) {
  std::vector<KeyRef> refs;
  for (uint64_t i = 0; i < count; ++i) refs.push_back({i, Distribution::kUniform, i % 3 == 2});
  return refs;
}

OpBatch BatchOf(KeyFormat format, KeyShape shape) {
  OpBatch batch;
  KeyWriter(format, shape, kSeed, kKeys).Fill(Refs(kKeys), &batch);
  return batch;
}

TEST(Fixed64KeysTest, AreBigEndianNumbers) {
  OpBatch batch;
  batch.numbers = {0x0102030405060708ULL, 0xff00000000000001ULL};
  const Fixed64Keys keys(batch);
  KeyRoom room;
  EXPECT_EQ(keys.Key(0, &room), std::string_view("\x01\x02\x03\x04\x05\x06\x07\x08"));
  EXPECT_EQ(keys.Key(1, &room), std::string_view("\xff\0\0\0\0\0\0\x01", 8));
}

TEST(LinkOfTest, IsNothingOfAnyValue) {
  EXPECT_EQ(LinkOf(ValueError(40, ValueWord(40, 3))), 0);
  EXPECT_EQ(LinkOf(ValueError(40, ValueWord(48, 3))), 0) << "no key is made of a wrong value";
}

TEST(LinkOfTest, MovesTheKeyThatDependsOnIt) {
  OpBatch batch;
  batch.numbers = {5};
  batch.key_bytes = "abcd";
  batch.key_ends = {3};
  KeyRoom room;
  EXPECT_EQ(Fixed64Keys(batch).Key(0, &room, 4), std::string_view("\0\0\0\0\0\0\0\x01", 8));
  EXPECT_EQ(BytesKeys(batch).Key(0, nullptr, 1), "bcd");
}

TEST(KeyWriterTest, AppendsFixed64KeysAsTheyAreRead) {
  const OpBatch batch = BatchOf(KeyFormat::kFixed64, KeyShape::kUser);
  EXPECT_TRUE(batch.key_bytes.empty());
  const KeyWriter writer(KeyFormat::kFixed64, KeyShape::kUser, kSeed, kKeys);
  std::string key;
  writer.Append(Refs(5)[4], &key);
  KeyRoom room;
  EXPECT_EQ(key, Fixed64Keys(batch).Key(4, &room));
}

TEST(KeyWriterTest, GivesEachKeyBytesOfItsOwn) {
  for (const KeyShape shape : {KeyShape::kRandom16, KeyShape::kUser, KeyShape::kUrl}) {
    const OpBatch batch = BatchOf(KeyFormat::kBytes, shape);
    const BytesKeys keys(batch);
    std::unordered_set<std::string> seen;
    for (size_t i = 0; i < batch.size(); ++i) seen.emplace(keys.Key(i));
    EXPECT_EQ(seen.size(), kKeys) << KeyShapeName(shape);
  }
}

TEST(KeyWriterTest, HasTheShapesThatItNames) {
  const OpBatch random = BatchOf(KeyFormat::kBytes, KeyShape::kRandom16);
  const OpBatch user = BatchOf(KeyFormat::kBytes, KeyShape::kUser);
  const OpBatch url = BatchOf(KeyFormat::kBytes, KeyShape::kUrl);
  for (size_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(BytesKeys(random).Key(i).size(), 16);
    const std::string_view name = BytesKeys(user).Key(i);
    ASSERT_EQ(name.size(), 21);
    ASSERT_TRUE(name.starts_with("user:"));
    ASSERT_EQ(name.find_first_not_of("0123456789", 5), std::string_view::npos);
    const std::string_view link = BytesKeys(url).Key(i);
    ASSERT_TRUE(link.starts_with("https://shop-"));
    ASSERT_TRUE(link.ends_with(".html"));
    ASSERT_NEAR(static_cast<double>(link.size()), 72, 8);
  }
}

// So the hot range of numbers is one range of keys, and sequential keys ascend.
TEST(KeyWriterTest, KeepsTheOrderOfNumbers) {
  for (const KeyShape shape : {KeyShape::kRandom16, KeyShape::kUrl}) {
    const OpBatch batch = BatchOf(KeyFormat::kBytes, shape);
    std::vector<std::pair<uint64_t, std::string>> pairs;
    for (size_t i = 0; i < batch.size(); ++i) {
      pairs.emplace_back(batch.numbers[i], BytesKeys(batch).Key(i));
    }
    std::sort(pairs.begin(), pairs.end());
    EXPECT_TRUE(std::is_sorted(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
      return a.second < b.second;
    })) << KeyShapeName(shape);
  }
}

TEST(ValueWordTest, TellsItsKeyInEveryGeneration) {
  const uint64_t number = 0x123456789abcdef7ULL;
  EXPECT_NE(ValueWord(number, 0), ValueWord(number, 1));
  for (uint8_t generation = 0; generation <= 7; ++generation) {
    EXPECT_TRUE(IsValueOf(number, ValueWord(number, generation)));
    EXPECT_FALSE(IsValueOf(number + 8, ValueWord(number, generation)));
  }
}

}  // namespace
}  // namespace lodgekv::bench
