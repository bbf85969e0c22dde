#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "absl/strings/str_split.h"
#include "index/registry.h"
#include "tests/support/arena_memory.h"
#include "tests/support/engine_case.h"
#include "tests/support/key_sets.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

TEST(RandomTest, SameStreamSameNumbersOtherStreamOthers) {
  Random a("stream");
  Random again("stream");
  Random other("stream", 1);
  const uint64_t first = a.Next();
  EXPECT_EQ(first, again.Next());
  EXPECT_NE(first, other.Next());
}

// CMake creates a test for each persistent engine: its list must match the registry.
TEST(EngineCaseTest, TheBuildKnowsThePersistentEngines) {
  std::set<std::string> registered;
  for (const EngineInfo* engine : AllEngines()) {
    if (engine->persistent) registered.insert(std::string(engine->name));
  }
  EXPECT_EQ(std::set<std::string>(absl::StrSplit(LODGEKV_PERSISTENT_ENGINES, ',')), registered)
      << "lodgekv_add_engine(NAME VOLATILE) and EngineInfo::persistent disagree";
}

TEST(KeySetsTest, OrderedKeysAreInTheOrderOfTheirNumbers) {
  for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed64}) {
    for (const uint64_t number : {0, 1, 9, 10, 255, 256, 65'535, 99'999'999}) {
      EXPECT_LT(OrderedKey(format, number), OrderedKey(format, number + 1)) << number;
    }
  }
}

TEST(KeySetsTest, FamiliesFitTheirFormatAndHaveManyKeys) {
  for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed64}) {
    for (const KeyFamily& family : KeyFamilies(format)) {
      SCOPED_TRACE(family.name);
      std::set<std::string> keys;
      for (uint64_t number = 0; number < 1'000; ++number) {
        const std::string key = family.make(number);
        EXPECT_EQ(key, family.make(number));
        ASSERT_FALSE(key.empty());
        ASSERT_LE(key.size(), 65'535u);
        if (format == KeyFormat::kFixed64) {
          ASSERT_EQ(key.size(), 8u);
        }
        keys.insert(key);
      }
      EXPECT_GT(keys.size(), 350u);
    }
  }
}

TEST(KeySetsTest, ValuesTellTheirIdAndHaveTheirLength) {
  for (const uint64_t id : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 62}) {
    for (const size_t bytes : {8, 9, 15, 16, 100, 4097}) {
      const std::string value = ValueOf(KeyFormat::kBytes, id, bytes);
      EXPECT_EQ(value.size(), bytes);
      EXPECT_EQ(IdOf(value), id);
    }
    EXPECT_EQ(ValueOf(KeyFormat::kFixed64, id, 100).size(), 8u);
    EXPECT_EQ(IdOf(ValueOf(KeyFormat::kFixed64, id)), id);
  }
}

TEST(ArenaMemoryTest, CopyHasTheSameBytesElsewhere) {
  ArenaMemory memory(64 * 4096 + 16);
  std::memset(memory.span().data() + 3 * 4096 + 100, 0x5A, 5000);
  memory.span().back() = std::byte{7};
  const ArenaMemory copy = memory.Copy();
  EXPECT_NE(copy.span().data(), memory.span().data());
  ASSERT_EQ(copy.span().size(), memory.span().size());
  EXPECT_EQ(std::memcmp(copy.span().data(), memory.span().data(), memory.span().size()), 0);
}

TEST(EngineCaseTest, NamesAreDifferentAndNoEngineIsLeftOut) {
  std::set<std::string> names;
  std::set<std::string_view> engines;
  for (const auto& cases : {StoringCases(), DiscardingCases()}) {
    for (const EngineCase& engine_case : cases) {
      EXPECT_TRUE(names.insert(engine_case.Name()).second) << engine_case.Name();
      engines.insert(engine_case.engine->name);
    }
  }
  EXPECT_TRUE(engines.contains("dram"));
  EXPECT_TRUE(engines.contains("null"));
  EXPECT_TRUE(names.contains("dram_bytes"));
  EXPECT_TRUE(names.contains("dram_fixed64"));
}

}  // namespace
}  // namespace lodgekv::test
