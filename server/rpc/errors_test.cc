#include "server/rpc/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/test_daemon.h"

namespace lodgekv::server {
namespace {

using ::testing::AllOf;
using testing::CodeAndReason;
using testing::DetailsOf;
using ::testing::HasSubstr;

TEST(ErrorsTest, EveryOutcomeHasItsCode) {
  const auto of = [](Outcome outcome) {
    return CodeAndReason(FromWriteResult({.outcome = outcome}, {}));
  };
  EXPECT_TRUE(FromWriteResult({.outcome = Outcome::kOk}, {}).ok());
  EXPECT_EQ(of(Outcome::kConditionFailed), "FAILED_PRECONDITION CONDITION_FAILED");
  EXPECT_EQ(of(Outcome::kAborted), "ABORTED BATCH_ABORTED");
  EXPECT_EQ(of(Outcome::kInvalidArgument), "INVALID_ARGUMENT NOT_IN_KEY_FORMAT");
  EXPECT_EQ(of(Outcome::kPoolFull), "RESOURCE_EXHAUSTED POOL_FULL");
  EXPECT_EQ(of(Outcome::kDataLoss), "DATA_LOSS DAMAGED_RECORD");
  EXPECT_EQ(of(Outcome::kMediumFailed), "UNAVAILABLE MEDIUM_FAILED");
  EXPECT_EQ(CodeAndReason(FromReadOutcome(Outcome::kDataLoss, 3)), "DATA_LOSS DAMAGED_RECORD");
  EXPECT_THAT(FromReadOutcome(Outcome::kDataLoss, 3).error_message(), HasSubstr("operation 3"));
}

TEST(ErrorsTest, AFailedConditionReportsTheStateOfTheKey) {
  const grpc::Status status =
      FromWriteResult({.outcome = Outcome::kConditionFailed, .found = true, .version = 42},
                      {.condition = Condition::kIfVersion, .index = 5});
  const auto details = DetailsOf(status);
  EXPECT_EQ(details.info.domain(), "lodgekv");
  EXPECT_EQ(details.info.metadata().at("found"), "true");
  EXPECT_EQ(details.info.metadata().at("version"), "42");
  EXPECT_EQ(details.info.metadata().at("operation"), "5");
  ASSERT_EQ(details.precondition.violations_size(), 1);
  EXPECT_EQ(details.precondition.violations(0).type(), "IF_VERSION");
  EXPECT_EQ(details.precondition.violations(0).subject(), "operations[5].key");
  EXPECT_THAT(status.error_message(), HasSubstr("version is 42"));
}

TEST(ErrorsTest, TemporaryErrorsSayWhenToRetry) {
  for (const grpc::Status& status :
       {RecoveringError(), DrainingError(),
        OverloadedError({false, AdmissionLimit::kBytes, true, 1'024})}) {
    const auto details = DetailsOf(status);
    EXPECT_TRUE(details.has_retry) << status.error_message();
    EXPECT_GT(
        details.retry.retry_delay().seconds() * 1'000'000'000 + details.retry.retry_delay().nanos(),
        0);
  }
  EXPECT_FALSE(DetailsOf(FromWriteResult({.outcome = Outcome::kPoolFull}, {})).has_retry);
}

TEST(ErrorsTest, OverloadNamesTheLimitAndItsValue) {
  const grpc::Status status = OverloadedError({false, AdmissionLimit::kBytes, true, 1'024});
  EXPECT_EQ(CodeAndReason(status), "RESOURCE_EXHAUSTED TOO_MANY_BYTES");
  EXPECT_THAT(status.error_message(), HasSubstr("max_inflight_size is 1024"));
  EXPECT_EQ(DetailsOf(status).quota.violations(0).subject(), "max_inflight_size");
  const grpc::Status share = OverloadedError({false, AdmissionLimit::kConnection, false, 512});
  EXPECT_EQ(CodeAndReason(share), "RESOURCE_EXHAUSTED TOO_MANY_OPERATIONS");
  EXPECT_THAT(share.error_message(),
              AllOf(HasSubstr("this connection"), HasSubstr("connection_share is 512")));
  EXPECT_EQ(DetailsOf(share).info.metadata().at("limit"), "connection_share");
}

TEST(ErrorsTest, AbslCodesKeepTheirMeaning) {
  EXPECT_TRUE(FromAbsl(absl::OkStatus()).ok());
  EXPECT_EQ(CodeAndReason(FromAbsl(absl::DataLossError("x"))), "DATA_LOSS DATA_LOSS");
  EXPECT_EQ(CodeAndReason(FromAbsl(absl::NotFoundError("x"))), "NOT_FOUND NOT_FOUND");
  EXPECT_EQ(FromAbsl(absl::UnavailableError("why")).error_message(), "why");
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "x");
    EXPECT_EQ(static_cast<int>(FromAbsl(status).error_code()), code);
  }
}

}  // namespace
}  // namespace lodgekv::server
