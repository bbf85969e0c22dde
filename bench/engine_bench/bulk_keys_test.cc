#include "bench/engine_bench/bulk_keys.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lodgekv::bench {
namespace {

constexpr uint64_t kKeys = 3000;
constexpr uint64_t kSeed = 7;

// The pairs must be those of inserts, in order.
void ExpectAll(KeyFormat format, KeyShape shape, Distribution distribution, uint32_t value_bytes) {
  const KeyWriter writer(format, shape, kSeed, kKeys);
  std::set<std::string> wanted;
  for (uint64_t i = 0; i < kKeys; ++i) {
    std::string key;
    writer.Append({i, distribution}, &key);
    wanted.insert(key);
  }
  BulkKeys keys(writer, format, value_bytes, distribution, kKeys);
  const BulkSource source = keys.Source();
  auto next = wanted.begin();
  BulkPair pair;
  for (auto more = source(&pair); *more; more = source(&pair)) {
    ASSERT_NE(next, wanted.end());
    ASSERT_EQ(pair.key, *next++);
    ASSERT_EQ(pair.value.size(), value_bytes);
  }
  EXPECT_EQ(next, wanted.end());
  PhaseResult result;
  keys.Finish(&result);
  EXPECT_EQ(result.ops, kKeys);
  EXPECT_GT(result.seconds, 0);
  EXPECT_LT(result.seconds, 10);
}

TEST(BulkKeysTest, AscendInEveryFormatShapeAndDistribution) {
  for (const Distribution distribution :
       {Distribution::kUniform, Distribution::kSkewed, Distribution::kSequential}) {
    ExpectAll(KeyFormat::kFixed64, KeyShape::kRandom16, distribution, 8);
    for (const KeyShape shape : {KeyShape::kRandom16, KeyShape::kUser, KeyShape::kUrl}) {
      ExpectAll(KeyFormat::kBytes, shape, distribution, 20);
    }
  }
}

TEST(BulkKeysTest, ShortValuesAreCutOff) {
  ExpectAll(KeyFormat::kBytes, KeyShape::kUser, Distribution::kUniform, 3);
  ExpectAll(KeyFormat::kBytes, KeyShape::kUser, Distribution::kUniform, 0);
}

}  // namespace
}  // namespace lodgekv::bench
