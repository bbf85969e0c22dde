// Keys and values of every shape: shared prefixes, embedded zeros, the smallest and largest sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

using Model = std::map<std::string, std::string>;

class KeyShapesTest : public ConformanceTest {
 protected:
  HarnessOptions Options() const override {
    return {.memory_bytes = uint64_t{64} << 20, .chunk_bytes = uint64_t{128} << 10};
  }

  void PutAll(const Model& model) {
    for (const auto& [key, value] : model) {
      ASSERT_EQ(Put(engine(), key, value).outcome, Outcome::kOk) << Show(key);
    }
  }

  // Reads, both scans and each pair of neighbours as bounds must agree with the model.
  void ExpectModel(const Model& model) {
    EXPECT_EQ(engine().CountKeys(), model.size());
    for (const auto& [key, value] : model) ExpectValue(key, value);
    std::vector<Pair> scanned = ScanAll(engine());
    ASSERT_EQ(scanned.size(), model.size());
    size_t at = 0;
    for (const auto& [key, value] : model) {
      ASSERT_TRUE(scanned[at].key == key) << Show(scanned[at].key) << " not " << Show(key);
      ASSERT_TRUE(scanned[at].value == value) << Show(key);
      ++at;
    }
    const std::vector<Pair> backward = ScanAll(engine(), {.reverse = true});
    EXPECT_TRUE(std::equal(scanned.rbegin(), scanned.rend(), backward.begin(), backward.end()));
  }

  // Puts, replaces, restarts and deletes the keys, comparing with the model at each step.
  void RunThrough(const std::vector<std::string>& keys) {
    Model model;
    uint64_t id = 0;
    for (const std::string& key : keys) {
      ++id;
      model[key] = Value(id, 8 + id % 50);
    }
    PutAll(model);
    ExpectModel(model);
    for (auto& [key, value] : model) {
      ++id;
      value = Value(id, 8 + id % 20);
    }
    PutAll(model);
    ExpectModel(model);
    if (harness().persistent()) {
      ASSERT_TRUE(harness().KillAndReopen().ok());
      ExpectModel(model);
      ASSERT_TRUE(harness().CloseAndReopen().ok());
      ExpectModel(model);
    }
    ExpectSound();
    for (size_t i = 0; i < keys.size(); i += 2) {
      ASSERT_EQ(Delete(engine(), keys[i]).found, model.contains(keys[i])) << Show(keys[i]);
      model.erase(keys[i]);
      ExpectMissing(keys[i]);
    }
    ExpectModel(model);
  }
};

// Tests of keys and values that `fixed64` cannot have.
class BytesShapesTest : public KeyShapesTest {};

class LargeValuesTest : public KeyShapesTest {
 protected:
  HarnessOptions Options() const override {
    return {.memory_bytes = uint64_t{256} << 20, .chunk_bytes = uint64_t{256} << 10};
  }
};

TEST_P(KeyShapesTest, EveryFamily) {
  for (const KeyFamily& family : KeyFamilies(format())) {
    SCOPED_TRACE(family.name);
    std::vector<std::string> keys;
    for (uint64_t number = 0; number < Scaled(1'000); ++number) {
      keys.push_back(family.make(number));
    }
    std::shuffle(keys.begin(), keys.end(), std::minstd_rand(1));
    RunThrough(keys);
    for (const std::string& key : keys) {
      ASSERT_EQ(Delete(engine(), key).outcome, Outcome::kOk);
    }
    ASSERT_EQ(engine().CountKeys(), 0u);
  }
}

TEST_P(KeyShapesTest, AllZerosAndAllOnes) {
  RunThrough({std::string(8, '\0'), std::string(8, '\xFF'), BigEndian(1), BigEndian(~uint64_t{1}),
              BigEndian(uint64_t{1} << 63), BigEndian((uint64_t{1} << 63) - 1)});
}

TEST_P(KeyShapesTest, ValuesUseEveryBit) {
  Model model;
  for (unsigned bit = 0; bit < 64; ++bit) {
    model[Key(bit)] = BigEndian(uint64_t{1} << bit);
    model[Key(100 + bit)] = BigEndian(~(uint64_t{1} << bit));
    model[Key(200 + bit)] = BigEndian(~uint64_t{0} << bit);
  }
  PutAll(model);
  ExpectModel(model);
  if (harness().persistent()) {
    ASSERT_TRUE(harness().KillAndReopen().ok());
    ExpectModel(model);
  }
}

TEST_P(BytesShapesTest, KeysThatArePrefixesOfOneAnother) {
  std::vector<std::string> keys;
  for (size_t size = 1; size <= 64; ++size) {
    keys.push_back(std::string(size, 'a'));
    keys.push_back(std::string(size, '\0'));
    keys.push_back(std::string(size, '\xFF'));
    keys.push_back("prefix" + std::string(size, '\0'));
  }
  RunThrough(keys);
}

TEST_P(BytesShapesTest, PaddingZerosTellKeysApart) {
  std::vector<std::string> keys;
  for (const std::string& stem : {std::string("a"), std::string("abcdefg"), std::string("abcdefgh"),
                                  std::string("abcdefghi"), std::string()}) {
    for (size_t zeros = 0; zeros <= 10; ++zeros) keys.push_back(stem + std::string(zeros, '\0'));
  }
  std::erase(keys, std::string());
  RunThrough(keys);
}

TEST_P(BytesShapesTest, EqualFirstEightBytes) {
  std::vector<std::string> keys;
  for (uint64_t number = 0; number < Scaled(2'000); ++number) {
    keys.push_back("12345678" + std::to_string(number * 7'919 % 10'007));
  }
  keys.push_back("12345678");
  keys.push_back("1234567");
  keys.push_back("12345679");
  RunThrough(keys);
}

TEST_P(BytesShapesTest, LongSharedPrefixes) {
  std::vector<std::string> keys;
  for (uint64_t number = 0; number < Scaled(500); ++number) {
    for (const char* tail : {"", "/index.html", "/image.png"}) {
      keys.push_back("https://www.example.org/a/rather/long/path/that/all/of/them/share/" +
                     std::string(300, 'x') + std::to_string(number) + tail);
    }
  }
  RunThrough(keys);
}

TEST_P(BytesShapesTest, EveryKeyOfOneByte) {
  std::vector<std::string> keys;
  for (int byte = 0; byte < 256; ++byte) keys.push_back(std::string(1, static_cast<char>(byte)));
  RunThrough(keys);
}

TEST_P(BytesShapesTest, LargestKeys) {
  std::vector<std::string> keys;
  for (uint64_t number = 0; number < 40; ++number) {
    std::string last_differs(65'535, 'k');
    last_differs.replace(last_differs.size() - 8, 8, BigEndian(number));
    std::string first_differs(65'535, 'k');
    first_differs.replace(0, 8, BigEndian(number));
    keys.push_back(last_differs);
    keys.push_back(first_differs);
    keys.push_back(std::string(65'535 - number, 'k'));
  }
  RunThrough(keys);
}

TEST_P(BytesShapesTest, KeysOfEveryLengthAroundSizesThatMatter) {
  std::vector<std::string> keys;
  for (const size_t around : {8, 16, 32, 64, 128, 256, 4'096, 65'530}) {
    for (size_t size = around - 3; size <= around + 5; ++size) {
      std::string key(size, 'k');
      key.back() = 'z';
      keys.push_back(std::move(key));
    }
  }
  RunThrough(keys);
}

TEST_P(BytesShapesTest, EmptyValueIsAValue) {
  ASSERT_EQ(Put(engine(), "key", "").outcome, Outcome::kOk);
  ExpectValue("key", "");
  EXPECT_EQ(ScanAll(engine()).size(), 1u);
  EXPECT_EQ(Apply(engine(), PutOp("key", "", Condition::kIfAbsent)).outcome,
            Outcome::kConditionFailed);
  ASSERT_EQ(Put(engine(), "key", "something").outcome, Outcome::kOk);
  ASSERT_EQ(Put(engine(), "key", "").outcome, Outcome::kOk);
  if (harness().persistent()) {
    ASSERT_TRUE(harness().KillAndReopen().ok());
  }
  ExpectValue("key", "");
  EXPECT_TRUE(Delete(engine(), "key").found);
  ExpectMissing("key");
}

TEST_P(BytesShapesTest, ValuesOfEveryLengthAroundSizesThatMatter) {
  Model model;
  uint64_t id = 0;
  for (const size_t around : {8, 16, 32, 64, 128, 256, 512, 4'096, 65'536, 131'072}) {
    for (size_t size = around - 8; size <= around + 8; ++size) {
      std::string value = Value(++id, 8 + size);
      value.resize(size);
      model["size " + std::to_string(size)] = std::move(value);
    }
  }
  PutAll(model);
  ExpectModel(model);
  if (harness().persistent()) {
    ASSERT_TRUE(harness().KillAndReopen().ok());
    ExpectModel(model);
  }
}

TEST_P(BytesShapesTest, ShortPairsInAllLengths) {
  Model model;
  uint64_t id = 0;
  for (size_t key_bytes = 1; key_bytes <= 10; ++key_bytes) {
    for (size_t value_bytes = 0; value_bytes <= 10; ++value_bytes) {
      std::string value = Value(++id, 16);
      value.resize(value_bytes);
      model[std::string(key_bytes, static_cast<char>('a' + value_bytes))] = std::move(value);
    }
  }
  PutAll(model);
  ExpectModel(model);
  for (auto& [key, value] : model) value = value + "longer than it was";
  PutAll(model);
  ExpectModel(model);
  for (auto& [key, value] : model) value.resize(key.size() % 4);
  PutAll(model);
  ExpectModel(model);
  if (harness().persistent()) {
    ASSERT_TRUE(harness().KillAndReopen().ok());
    ExpectModel(model);
  }
}

TEST_P(LargeValuesTest, OfOneAndSixteenMebibytes) {
  constexpr size_t kMiB = size_t{1} << 20;
  Model model;
  model["one"] = Value(1, kMiB);
  model["sixteen"] = Value(2, 16 * kMiB);
  model["small"] = Value(3, 10);
  PutAll(model);
  ExpectModel(model);
  for (uint64_t round = 0; round < 8; ++round) {
    model["one"] = Value(10 + round, kMiB - round);
    model["sixteen"] = Value(30 + round, 16 * kMiB - round);
    PutAll(model);
  }
  ExpectModel(model);
  if (harness().persistent()) {
    ASSERT_TRUE(harness().KillAndReopen().ok());
    ExpectModel(model);
    ASSERT_TRUE(harness().CloseAndReopen().ok());
    ExpectModel(model);
  }
  EXPECT_TRUE(Delete(engine(), "sixteen").found);
  model.erase("sixteen");
  model["sixteen again"] = Value(99, 16 * kMiB);
  PutAll(model);
  ExpectModel(model);
}

INSTANTIATE_TEST_SUITE_P(Engines, KeyShapesTest, ::testing::ValuesIn(StoringCases()),
                         EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, BytesShapesTest, ::testing::ValuesIn(StoringBytesCases()),
                         EngineCaseName());

INSTANTIATE_TEST_SUITE_P(Engines, LargeValuesTest, ::testing::ValuesIn(StoringBytesCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
