// BatchGet and BatchWrite over a real connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {
namespace {

using ::testing::HasSubstr;

v1::Operation* Add(v1::BatchWriteRequest& request, v1::OperationKind kind, const std::string& key,
                   const std::string& value = "") {
  v1::Operation* operation = request.add_operations();
  operation->set_kind(kind);
  operation->set_key(key);
  operation->set_value(value);
  return operation;
}

TEST(KvBatchTest, WritesAllAndAnswersInOrder) {
  TestDaemon daemon;
  ASSERT_TRUE(daemon.Put("old", "v").ok());
  v1::BatchWriteRequest request;
  Add(request, v1::OPERATION_KIND_PUT, "a", "1");
  Add(request, v1::OPERATION_KIND_DELETE, "old");
  Add(request, v1::OPERATION_KIND_DELETE, "never");
  v1::BatchWriteResponse response;
  ASSERT_TRUE(daemon.BatchWrite(request, &response).ok());
  ASSERT_EQ(response.results_size(), 3);
  EXPECT_GT(response.results(0).version(), 0);
  EXPECT_TRUE(response.results(1).found());
  EXPECT_FALSE(response.results(2).found());
  EXPECT_EQ(daemon.ValueOf("a"), "1");
  EXPECT_EQ(daemon.ValueOf("old"), "(none)");
}

TEST(KvBatchTest, AFailedConditionAppliesNothingAndNamesTheOperation) {
  TestDaemon daemon;
  ASSERT_TRUE(daemon.Put("there", "v").ok());
  v1::BatchWriteRequest request;
  Add(request, v1::OPERATION_KIND_PUT, "a", "1");
  Add(request, v1::OPERATION_KIND_DELETE, "there");
  Add(request, v1::OPERATION_KIND_PUT, "missing", "2")->set_condition(v1::CONDITION_IF_PRESENT);
  const grpc::Status status = daemon.BatchWrite(request);
  EXPECT_EQ(CodeAndReason(status), "FAILED_PRECONDITION CONDITION_FAILED");
  EXPECT_EQ(DetailsOf(status).info.metadata().at("operation"), "2");
  EXPECT_EQ(DetailsOf(status).precondition.violations(0).subject(), "operations[2].key");
  EXPECT_EQ(daemon.ValueOf("a"), "(none)");
  EXPECT_EQ(daemon.ValueOf("there"), "v");
}

TEST(KvBatchTest, AnEmptyBatchIsAnswered) {
  TestDaemon daemon;
  v1::BatchWriteResponse response;
  EXPECT_TRUE(daemon.BatchWrite({}, &response).ok());
  EXPECT_EQ(response.results_size(), 0);
  v1::BatchGetResponse looked;
  EXPECT_TRUE(daemon.BatchGet({}, &looked).ok());
}

TEST(KvBatchTest, GetsInTheOrderOfTheKeys) {
  TestDaemon daemon;
  v1::BatchGetRequest request;
  for (int i = 0; i < 300; ++i) {
    const std::string key = "key" + std::to_string(i);
    if (i % 3 != 0) {
      ASSERT_TRUE(daemon.Put(key, "value" + std::to_string(i)).ok());
    }
    request.add_keys(key);
  }
  request.add_keys("key1");
  v1::BatchGetResponse response;
  ASSERT_TRUE(daemon.BatchGet(request, &response).ok());
  ASSERT_EQ(response.results_size(), 301);
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(response.results(i).found(), i % 3 != 0);
    EXPECT_EQ(response.results(i).value(), i % 3 != 0 ? "value" + std::to_string(i) : "");
  }
  EXPECT_EQ(response.results(300).value(), "value1");
}

TEST(KvBatchTest, TheLargestBatchIsServedAndOneMoreOperationIsRefused) {
  TestDaemon daemon;
  v1::BatchWriteRequest request;
  for (int i = 0; i < 1'024; ++i) {
    Add(request, v1::OPERATION_KIND_PUT, "key" + std::to_string(i), "v");
  }
  EXPECT_TRUE(daemon.BatchWrite(request).ok());
  Add(request, v1::OPERATION_KIND_PUT, "one more", "v");
  const grpc::Status status = daemon.BatchWrite(request);
  EXPECT_EQ(CodeAndReason(status), "INVALID_ARGUMENT BATCH_TOO_LONG");
  EXPECT_THAT(status.error_message(), HasSubstr("max_batch_operations, 1024"));
}

void AddUnknownFields(google::protobuf::Message& message, int count) {
  for (int i = 0; i < count; ++i) {
    message.GetReflection()->MutableUnknownFields(&message)->AddVarint(15, 1);
  }
}

TEST(KvBatchTest, UnknownFieldsAreIgnoredUpToALimit) {
  TestDaemon daemon;
  v1::BatchWriteRequest writes;
  AddUnknownFields(*Add(writes, v1::OPERATION_KIND_PUT, "k", "v"), 29);
  v1::BatchGetRequest gets;
  gets.add_keys("k");
  AddUnknownFields(writes, 32);
  AddUnknownFields(gets, 32);
  v1::BatchGetResponse response;
  EXPECT_TRUE(daemon.BatchWrite(writes).ok());
  EXPECT_TRUE(daemon.BatchGet(gets, &response).ok());
  EXPECT_EQ(response.results(0).value(), "v");
  AddUnknownFields(*writes.mutable_operations(0), 1);
  AddUnknownFields(gets, 1);
  EXPECT_EQ(CodeAndReason(daemon.BatchWrite(writes)), "INVALID_ARGUMENT TOO_MANY_FIELDS");
  EXPECT_EQ(CodeAndReason(daemon.BatchGet(gets, &response)), "INVALID_ARGUMENT TOO_MANY_FIELDS");
}

TEST(KvBatchTest, TooManyBytesAreRefusedByTheServerNotByGrpc) {
  TestDaemon daemon;
  v1::BatchWriteRequest request;
  for (int i = 0; i < 5; ++i) {
    Add(request, v1::OPERATION_KIND_PUT, "key" + std::to_string(i), std::string(kMiB - 64, 'v'));
  }
  const grpc::Status status = daemon.BatchWrite(request);
  EXPECT_EQ(CodeAndReason(status), "INVALID_ARGUMENT BATCH_TOO_LARGE");
  EXPECT_THAT(status.error_message(), HasSubstr("max_batch_size, 4194304"));
}

TEST(KvBatchTest, AnAnswerThatIsTooLargeIsRefused) {
  TestDaemon daemon;
  v1::BatchGetRequest request;
  for (int i = 0; i < 5; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_TRUE(daemon.Put(key, std::string(kMiB, 'v')).ok());
    request.add_keys(key);
  }
  v1::BatchGetResponse response;
  const grpc::Status status = daemon.BatchGet(request, &response);
  EXPECT_EQ(CodeAndReason(status), "RESOURCE_EXHAUSTED ANSWER_TOO_LARGE");
  EXPECT_THAT(status.error_message(), HasSubstr("max_batch_size"));
  request.mutable_keys()->DeleteSubrange(3, 2);
  EXPECT_TRUE(daemon.BatchGet(request, &response).ok());
  EXPECT_EQ(response.results_size(), 3);
}

TEST(KvBatchTest, ADamagedRecordIsNamed) {
  auto faults = std::make_shared<Faults>();
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  faults->reads = Outcome::kDataLoss;
  v1::BatchGetRequest request;
  request.add_keys("a");
  v1::BatchGetResponse response;
  EXPECT_EQ(CodeAndReason(daemon.BatchGet(request, &response)), "DATA_LOSS DAMAGED_RECORD");
}

}  // namespace
}  // namespace lodgekv::server::testing
