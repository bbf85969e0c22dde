#include "client/lodgectl/load_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace lodgekv::lodgectl {
namespace {

using client::BatchOp;

// Keeps calls in flight until it is told how they end.
class FakeClient final : public client::Client {
 public:
  struct Call {
    std::vector<BatchOp> ops;
    client::WriteDone done;
  };

  void StartBatchWrite(const std::vector<BatchOp>& ops, client::WriteDone done) override {
    Start({ops, std::move(done)});
  }

  void StartPut(std::string_view key, std::string_view value, const client::PutOptions& options,
                client::WriteDone done) override {
    ++puts;
    Start({{{std::string(key), std::string(value), options}}, std::move(done)});
  }

  absl::Status Ping() override {
    ++pings;
    return answer_to_ping;
  }

  absl::StatusOr<client::GetResult> Get(std::string_view) override { return Unused(); }
  absl::StatusOr<uint64_t> Put(std::string_view, std::string_view,
                               const client::PutOptions&) override {
    return Unused();
  }
  absl::StatusOr<bool> Delete(std::string_view, const client::WriteCondition&) override {
    return Unused();
  }
  absl::Status Scan(const client::ScanOptions&, client::ScanVisitor, std::string*) override {
    return Unused();
  }
  absl::StatusOr<std::vector<client::GetResult>> BatchGet(
      const std::vector<std::string>&) override {
    return Unused();
  }
  absl::StatusOr<std::vector<client::BatchResult>> BatchWrite(
      const std::vector<BatchOp>&) override {
    return Unused();
  }

  std::unique_ptr<client::Session> OpenSession(const client::SessionOptions&) override {
    return nullptr;
  }

  // Calls after this many end with `failure`, and so do calls with more operations than this; the
  // newest calls are answered first.
  size_t fail_after = SIZE_MAX;
  size_t most_ops = SIZE_MAX;
  absl::Status failure;
  size_t answer_at = 1;  // number of calls in flight at which they are answered
  absl::Status answer_to_ping;
  size_t pings = 0;
  size_t puts = 0;
  std::vector<size_t> batch_sizes;
  std::map<std::string, std::string> values;
  std::map<std::string, absl::Duration> ttls;
  std::vector<std::string> deleted;

 private:
  static absl::Status Unused() { return absl::InternalError("not used by the pipeline"); }

  void Start(Call call) {
    batch_sizes.push_back(call.ops.size());
    for (const Call& other : under_way_) {
      for (const BatchOp& op : other.ops) {
        for (const BatchOp& mine : call.ops) EXPECT_NE(op.key, mine.key) << "under way twice";
      }
    }
    under_way_.push_back(std::move(call));
    if (under_way_.size() >= answer_at) AnswerAll();
  }

  void AnswerAll() {
    for (; !under_way_.empty(); under_way_.pop_back()) {
      const bool fails = batch_sizes.size() > fail_after || under_way_.back().ops.size() > most_ops;
      for (const BatchOp& op : under_way_.back().ops) {
        if (fails) continue;
        if (op.value) values[op.key] = *op.value;
        if (op.options.ttl) ttls[op.key] = *op.options.ttl;
        if (!op.value) deleted.push_back(op.key);
      }
      under_way_.back().done(fails ? failure : absl::OkStatus());
    }
  }

  std::vector<Call> under_way_;
};

BatchOp PutOf(const std::string& key, const std::string& value) { return {key, value, {}}; }
BatchOp DeleteOf(const std::string& key) { return {key, std::nullopt, {}}; }

absl::Status PoolFull() {
  google::rpc::ErrorInfo error;
  error.set_reason("POOL_FULL");
  google::rpc::Status details;
  details.add_details()->PackFrom(error);
  absl::Status status = absl::ResourceExhaustedError("no room");
  status.SetPayload(client::kDetailsUrl, absl::Cord(details.SerializeAsString()));
  return status;
}

class LoadPipelineTest : public testing::Test {
 protected:
  LoadPipeline Pipeline(LoadOptions options) {
    return LoadPipeline(client_, options, [this](const std::vector<BatchOp>& ops) {
      for (const BatchOp& op : ops) acknowledged_.push_back(op.key);
    });
  }

  FakeClient client_;
  std::vector<std::string> acknowledged_;
};

TEST_F(LoadPipelineTest, CutsIntoBatchesAndAcknowledgesInOrder) {
  client_.answer_at = 2;
  LoadPipeline pipeline = Pipeline({.batch = 3, .concurrency = 2});
  std::vector<std::string> keys;
  for (int i = 0; i < 12; ++i) {
    keys.push_back(std::to_string(100 + i));
    ASSERT_TRUE(pipeline.Add(PutOf(keys.back(), "v")).ok());
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(client_.batch_sizes, (std::vector<size_t>{3, 3, 3, 3}));
  EXPECT_EQ(acknowledged_, keys);
  EXPECT_EQ(pipeline.acknowledged(), 12u);
}

// However long it takes until a record is sent.
TEST_F(LoadPipelineTest, ARecordExpiresWhenItsInputSays) {
  for (const bool atomic : {false, true}) {
    LoadPipeline pipeline = Pipeline({.batch = 4, .concurrency = 1, .atomic = atomic});
    const absl::Time now = absl::Now();
    const absl::Time later = now + absl::Hours(1);
    ASSERT_TRUE(pipeline.Add(PutOf("later", "v"), later).ok());
    ASSERT_TRUE(pipeline.Add(PutOf("soon", "v"), now + absl::Milliseconds(1)).ok());
    ASSERT_TRUE(pipeline.Add(PutOf("gone", "v"), now - absl::Seconds(1)).ok());
    ASSERT_TRUE(pipeline.Add(PutOf("never", "v")).ok());
    absl::SleepFor(absl::Milliseconds(20));
    const absl::Time sent_after = absl::Now();
    ASSERT_TRUE(pipeline.Finish().ok());
    EXPECT_EQ(pipeline.expired(), 2u);
    EXPECT_EQ(pipeline.acknowledged(), 2u);
    EXPECT_LE(client_.ttls["later"], later - sent_after);
    EXPECT_GE(client_.ttls["later"], later - absl::Now());
    EXPECT_FALSE(client_.ttls.contains("never"));
    EXPECT_FALSE(client_.values.contains("soon"));
    EXPECT_FALSE(client_.values.contains("gone"));
  }
}

TEST_F(LoadPipelineTest, OfExpiredRecordsNothingIsSent) {
  LoadPipeline pipeline = Pipeline({.batch = 1, .concurrency = 1});
  ASSERT_TRUE(pipeline.Add(PutOf("gone", "v"), absl::Now() - absl::Seconds(1)).ok());
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(client_.batch_sizes, std::vector<size_t>());
  EXPECT_EQ(pipeline.expired(), 1u);
}

TEST_F(LoadPipelineTest, ABatchOfOneIsAPut) {
  LoadPipeline pipeline = Pipeline({.batch = 1, .concurrency = 1});
  ASSERT_TRUE(pipeline.Add(PutOf("a", "1")).ok());
  ASSERT_TRUE(pipeline.Add(PutOf("b", "2")).ok());
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(client_.puts, 2u);
}

TEST_F(LoadPipelineTest, DeletesThatAFullPoolRefusesGoInHalves) {
  client_.most_ops = 2;
  client_.failure = PoolFull();
  LoadPipeline pipeline = Pipeline({.batch = 7, .concurrency = 2});
  std::vector<std::string> keys;
  for (int i = 0; i < 21; ++i) {
    keys.push_back(std::to_string(100 + i));
    ASSERT_TRUE(pipeline.Add(DeleteOf(keys.back())).ok());
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(acknowledged_, keys);
  EXPECT_EQ(pipeline.acknowledged(), 21u);
  std::sort(client_.deleted.begin(), client_.deleted.end());
  EXPECT_EQ(client_.deleted, keys);
}

TEST_F(LoadPipelineTest, NothingElseGoesInHalves) {
  client_.most_ops = 2;
  client_.failure = PoolFull();
  const auto send = [&](LoadOptions options, const BatchOp& last) {
    client_.batch_sizes.clear();
    LoadPipeline pipeline = Pipeline(options);
    for (const char* key : {"a", "b"}) EXPECT_TRUE(pipeline.Add(DeleteOf(key)).ok());
    EXPECT_TRUE(pipeline.Add(last).ok());
    EXPECT_EQ(pipeline.Finish(), client_.failure);
    EXPECT_EQ(client_.batch_sizes, std::vector<size_t>{3});
  };
  send({.batch = 3}, PutOf("c", "v"));
  send({.batch = 3, .atomic = true}, DeleteOf("c"));
  client_.failure = absl::UnavailableError("gone");
  send({.batch = 3}, DeleteOf("c"));
  EXPECT_TRUE(acknowledged_.empty());
}

TEST_F(LoadPipelineTest, TheLaterOfTwoValuesStays) {
  LoadPipeline pipeline = Pipeline({.batch = 4, .concurrency = 3});
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(pipeline.Add(PutOf(std::to_string(i % 7), std::to_string(i))).ok());
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  for (int i = 43; i < 50; ++i) EXPECT_EQ(client_.values[std::to_string(i % 7)], std::to_string(i));
}

TEST_F(LoadPipelineTest, LargeRecordsMakeSmallBatches) {
  LoadPipeline pipeline = Pipeline({.batch = 100, .concurrency = 1});
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(pipeline.Add(PutOf(std::to_string(i), std::string(400'000, 'v'))).ok());
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(client_.batch_sizes, (std::vector<size_t>{2, 2}));
}

TEST_F(LoadPipelineTest, AtomicIsOneCallEvenOfOneRecord) {
  LoadPipeline pipeline = Pipeline({.batch = 2, .concurrency = 1, .atomic = true});
  for (const char* key : {"a", "b", "a", "c"}) ASSERT_TRUE(pipeline.Add(PutOf(key, "v")).ok());
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(client_.batch_sizes, (std::vector<size_t>{4}));
  EXPECT_EQ(client_.puts, 0u);
}

TEST_F(LoadPipelineTest, ReportsWhatIsAcknowledgedBeforeTheWindowIsFull) {
  LoadPipeline pipeline = Pipeline({.batch = 1, .concurrency = 100});
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(pipeline.Add(PutOf(key, "v")).ok());
  EXPECT_EQ(acknowledged_, (std::vector<std::string>{"a"}));
}

TEST_F(LoadPipelineTest, DeletesHaveNoValue) {
  LoadPipeline pipeline = Pipeline({.batch = 1, .concurrency = 1});
  ASSERT_TRUE(pipeline.Add({"a", std::nullopt, {}}).ok());
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(client_.puts, 0u);
  EXPECT_EQ(client_.deleted, (std::vector<std::string>{"a"}));
}

TEST_F(LoadPipelineTest, StopsAtTheFirstFailureAndTellsWhatIsUnknown) {
  client_.fail_after = 2;
  client_.failure = absl::UnavailableError("connection reset");
  LoadPipeline pipeline = Pipeline({.batch = 2, .concurrency = 1});
  int added = 0;
  while (added < 100 && pipeline.Add(PutOf(std::to_string(added), "v")).ok()) ++added;
  EXPECT_LT(added, 100);
  EXPECT_EQ(pipeline.Finish(), client_.failure);
  EXPECT_EQ(client_.batch_sizes.size(), 3u) << "sent after the failure";
  EXPECT_EQ(acknowledged_, (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(pipeline.unknown(), 2u);
}

TEST_F(LoadPipelineTest, NothingIsSentToAServerThatWasNeverReached) {
  client_.answer_to_ping = absl::UnavailableError("failed to connect to all addresses");
  for (const bool atomic : {false, true}) {
    LoadPipeline pipeline = Pipeline({.batch = 2, .concurrency = 4, .atomic = atomic});
    for (const char* key : {"a", "b", "c", "c"}) pipeline.Add(PutOf(key, "v")).IgnoreError();
    EXPECT_EQ(pipeline.Finish(), client_.answer_to_ping);
    EXPECT_EQ(pipeline.unknown(), 0u);
  }
  EXPECT_EQ(client_.batch_sizes, std::vector<size_t>());
  EXPECT_EQ(client_.pings, 2u);
}

TEST_F(LoadPipelineTest, TheServerIsAskedOnce) {
  LoadPipeline pipeline = Pipeline({.batch = 1, .concurrency = 4});
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(pipeline.Add(PutOf(key, "v")).ok());
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(client_.pings, 1u);
}

TEST_F(LoadPipelineTest, ARefusalLeavesNothingUnknown) {
  client_.fail_after = 0;
  client_.failure = absl::InvalidArgumentError("key too long");
  LoadPipeline pipeline = Pipeline({.batch = 2, .concurrency = 1});
  ASSERT_TRUE(pipeline.Add(PutOf("a", "v")).ok());
  EXPECT_EQ(pipeline.Finish(), client_.failure);
  EXPECT_EQ(pipeline.unknown(), 0u);
  EXPECT_EQ(pipeline.acknowledged(), 0u);
}

}  // namespace
}  // namespace lodgekv::lodgectl
