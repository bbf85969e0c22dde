#include "server/rpc/batch_answer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "lodgekv/v1/kv.pb.h"

namespace lodgekv::server {
namespace {

constexpr uint64_t kSeed = 11;

std::string Text(const grpc::Slice& slice) {
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

class BatchAnswerTest : public ::testing::Test {
 protected:
  uint64_t Draw(uint64_t bound) { return random_() % bound; }
  // Often 0, else of any length on the wire.
  uint64_t Number() { return Draw(4) == 0 ? 0 : random_() >> Draw(64); }

  std::mt19937_64 random_{kSeed};
};

TEST_F(BatchAnswerTest, WriteResultsAreAResponse) {
  std::vector<WriteResult> results;
  v1::BatchWriteResponse expected;
  for (int i = 0; i < 1'000; ++i) {
    results.push_back({.found = Draw(2) == 0, .version = Number()});
    v1::WriteResult& result = *expected.add_results();
    result.set_found(results.back().found);
    result.set_version(results.back().version);
  }
  EXPECT_EQ(Text(WriteResultsOnWire(results)), expected.SerializeAsString());
  EXPECT_EQ(WriteResultsOnWire({}).size(), 0U);
}

TEST_F(BatchAnswerTest, LookupsArePartsOfAResponse) {
  std::string wire;
  v1::BatchGetResponse expected;
  for (int part = 0; part < 50; ++part) {
    std::vector<ReadResult> results(Draw(17));
    for (ReadResult& result : results) {
      result.found = Draw(4) != 0;
      result.version = Number();
      result.expiry_unix_ms = Draw(2) == 0 ? 0 : Draw(200'000'000'000'000);
      result.value = std::string(Draw(300), 'v');
      v1::Lookup& lookup = *expected.add_results();
      // What an earlier call left in the result of an absent key does not count.
      if (!result.found) continue;
      lookup.set_found(true);
      lookup.set_value(result.value);
      lookup.set_version(result.version);
      if (result.expiry_unix_ms == 0) continue;
      lookup.mutable_expire_time()->set_seconds(static_cast<int64_t>(result.expiry_unix_ms / 1000));
      lookup.mutable_expire_time()->set_nanos(
          static_cast<int32_t>(result.expiry_unix_ms % 1000 * 1'000'000));
    }
    wire += Text(LookupsOnWire(results));
  }
  EXPECT_EQ(wire, expected.SerializeAsString());
}

}  // namespace
}  // namespace lodgekv::server
