#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "bench/server_bench/put_plan.h"
#include "bench/server_bench/put_recorder.h"
#include "bench/server_bench/put_source.h"
#include "bench/server_bench/request_source.h"
#include "bench/server_bench/typical_answer.h"
#include "lodgekv/v1/kv.pb.h"

namespace lodgekv::server_bench {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<std::pair<unsigned, unsigned>> SharesOf(unsigned in_flight, unsigned connections,
                                                    unsigned threads) {
  PutPlan plan;
  plan.in_flight = in_flight;
  plan.connections = connections;
  plan.threads = threads;
  std::vector<std::pair<unsigned, unsigned>> shares;
  for (const PutShare& share : SharesOf(plan)) {
    shares.emplace_back(share.in_flight, share.connections);
  }
  return shares;
}

TEST(PutPlanTest, PutsInFlightAndConnectionsAreSharedByThreads) {
  EXPECT_THAT(SharesOf(64, 4, 1), ElementsAre(Pair(64, 4)));
  EXPECT_THAT(SharesOf(64, 4, 3), ElementsAre(Pair(22, 2), Pair(21, 1), Pair(21, 1)));
  EXPECT_THAT(SharesOf(1, 4, 2), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(SharesOf(3, 4, 8), ElementsAre(Pair(1, 1), Pair(1, 1), Pair(1, 1)));
}

TEST(PutSourceTest, DrawsFromTheKeySpaceAndRepeatsWithItsSeed) {
  PutSource source(1, 10);
  PutSource again(1, 10);
  std::set<std::string> keys;
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_EQ(source.key().size(), kKeyBytes);
    EXPECT_EQ(source.value().size(), kValueBytes);
    EXPECT_EQ(source.key(), again.key());
    EXPECT_EQ(source.value(), again.value());
    keys.emplace(source.key());
    source.Next();
    again.Next();
  }
  EXPECT_EQ(keys.size(), 10);
}

TEST(PutSourceTest, ValuesAreAsLongAsWanted) {
  for (const size_t bytes : {size_t{1}, size_t{1'000}, size_t{1'000'000}}) {
    PutSource source(1, 10, bytes);
    for (int i = 0; i < 100; ++i, source.Next()) ASSERT_EQ(source.value().size(), bytes);
  }
}

TEST(RequestSourceTest, ScansBeginWhereAPageIsLeft) {
  constexpr uint64_t kKeys = 1'000;
  constexpr uint64_t kItems = 100;
  std::set<std::string> keys;
  PutSource all(1, kKeys);
  for (uint64_t number = 0; number < kKeys; ++number) {
    all.NextBelow(number, 1);
    keys.emplace(all.key());
  }
  RequestSource source(CallKind::kScan, kItems, kKeys, 1);
  for (int i = 0; i < 10'000; ++i) {
    v1::ScanRequest request;
    ASSERT_TRUE(request.ParseFromString(source.Next()));
    ASSERT_EQ(request.limit(), kItems);
    const auto start = keys.find(request.start());
    ASSERT_NE(start, keys.end());
    ASSERT_GE(std::distance(start, keys.end()), kItems);
  }
}

TEST(TypicalAnswerTest, IsWhatAServerAnswersThatFindsEverything) {
  v1::GetResponse get;
  ASSERT_TRUE(get.ParseFromString(TypicalAnswer(CallKind::kGet, 1)));
  EXPECT_TRUE(get.found());
  EXPECT_EQ(get.value().size(), kValueBytes);
  v1::BatchGetResponse batch;
  ASSERT_TRUE(batch.ParseFromString(TypicalAnswer(CallKind::kBatchGet, 7)));
  EXPECT_EQ(batch.results_size(), 7);
  v1::BatchWriteResponse written;
  ASSERT_TRUE(written.ParseFromString(TypicalAnswer(CallKind::kBatchWrite, 7)));
  EXPECT_EQ(written.results_size(), 7);
  v1::ScanResponse page;
  ASSERT_TRUE(page.ParseFromString(TypicalAnswer(CallKind::kScan, 7)));
  ASSERT_EQ(page.items_size(), 7);
  EXPECT_EQ(page.items(6).key().size(), kKeyBytes);
}

TEST(PutRecorderTest, CountsBetweenWarmUpAndEnd) {
  PutRecorder recorder({.count_from_ns = 100, .end_ns = 200, .keep_samples = true});
  EXPECT_TRUE(recorder.TakePut(50));
  recorder.Answered(50, 99);
  recorder.Answered(90, 150);
  EXPECT_FALSE(recorder.TakePut(200));
  recorder.Answered(190, 210);
  EXPECT_EQ(recorder.latencies().total(), 1);
  EXPECT_EQ(recorder.last_ns(), 150);
  ASSERT_EQ(recorder.samples().size(), 1);
  EXPECT_EQ(recorder.samples()[0].latency_ns, 60);
}

TEST(PutRecorderTest, GoesOnUntilEnoughCount) {
  PutRecorder recorder({.count_from_ns = 100, .end_ns = 200, .least_puts = 2});
  EXPECT_TRUE(recorder.TakePut(300));
  recorder.Answered(90, 310);
  EXPECT_TRUE(recorder.TakePut(310));
  recorder.Answered(90, 320);
  EXPECT_FALSE(recorder.TakePut(320));
  EXPECT_EQ(recorder.last_ns(), 320);
}

TEST(PutRecorderTest, SendsNoMoreThanWanted) {
  PutRecorder recorder({.end_ns = 200, .most_puts = 1});
  EXPECT_TRUE(recorder.TakePut(1));
  EXPECT_FALSE(recorder.TakePut(2));
}

}  // namespace
}  // namespace lodgekv::server_bench
