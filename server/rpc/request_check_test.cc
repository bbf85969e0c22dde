#include "server/rpc/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/test_daemon.h"

namespace lodgekv::server {
namespace {

using ::testing::AllOf;
using testing::DetailsOf;
using ::testing::HasSubstr;
using testing::MakePut;

constexpr uint64_t kNow = 1'700'000'000'000;

class RequestCheckTest : public ::testing::Test {
 protected:
  CheckContext Context() const { return {.limits = limits_, .pool = pool_, .now_unix_ms = kNow}; }

  // "reason field: message", or "fine".
  std::string Describe(const std::optional<grpc::Status>& error) {
    if (!error) return "fine";
    EXPECT_EQ(error->error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    const auto details = DetailsOf(*error);
    EXPECT_EQ(details.bad_request.field_violations_size(), 1);
    return details.info.reason() + " " + details.bad_request.field_violations(0).field() + " | " +
           error->error_message();
  }

  std::string Check(const v1::PutRequest& request) {
    wire_ = request.SerializeAsString();
    PointFields put;
    EXPECT_TRUE(ParsePut(wire_, &put));
    return Describe(ToPut(put.op, Context(), op_));
  }
  std::string Check(const v1::BatchWriteRequest& request) {
    const std::string wire = request.SerializeAsString();
    BatchWriteFields batch;
    EXPECT_TRUE(ParseBatch(wire, 0, &batch));
    std::vector<WriteOp> ops;
    return Describe(ToWriteOps(batch.entries, Context(), ops, bytes_));
  }
  std::string Check(std::vector<std::string_view> keys) {
    return Describe(CheckBatchGet(keys, Context(), bytes_));
  }

  std::string CheckTtl(int64_t seconds, int32_t nanos) {
    v1::PutRequest request = MakePut("k", "v");
    request.mutable_ttl()->set_seconds(seconds);
    request.mutable_ttl()->set_nanos(nanos);
    return Check(request);
  }

  static v1::Operation* Add(v1::BatchWriteRequest& request, const std::string& key,
                            v1::OperationKind kind = v1::OPERATION_KIND_PUT) {
    v1::Operation* operation = request.add_operations();
    operation->set_kind(kind);
    operation->set_key(key);
    return operation;
  }

  Limits limits_;
  PoolFeatures pool_;
  std::string wire_;  // op_ refers to it
  WriteOp op_;
  uint64_t bytes_ = 0;
};

TEST_F(RequestCheckTest, KeySizesAreLimited) {
  EXPECT_EQ(Check(MakePut(std::string(1, '\0'), "")), "fine");
  EXPECT_EQ(Check(MakePut(std::string(4'096, 'k'), "v")), "fine");
  EXPECT_THAT(Check(MakePut("", "v")), HasSubstr("KEY_EMPTY key"));
  EXPECT_THAT(Check(MakePut(std::string(4'097, 'k'), "v")),
              AllOf(HasSubstr("KEY_TOO_LONG key"), HasSubstr("4097 bytes"),
                    HasSubstr("max_key_size, 4096")));
}

TEST_F(RequestCheckTest, ValueSizesAreLimited) {
  EXPECT_EQ(Check(MakePut("k", std::string(kMiB, 'v'))), "fine");
  EXPECT_THAT(Check(MakePut("k", std::string(kMiB + 1, 'v'))),
              AllOf(HasSubstr("VALUE_TOO_LARGE value"), HasSubstr("1048577"),
                    HasSubstr("max_value_size, 1048576")));
}

TEST_F(RequestCheckTest, ConditionsAreConvertedToTheEngines) {
  EXPECT_EQ(Check(MakePut("k", "v", v1::CONDITION_IF_ABSENT)), "fine");
  EXPECT_EQ(op_.condition, Condition::kIfAbsent);
  EXPECT_EQ(Check(MakePut("k", "v", v1::CONDITION_IF_PRESENT)), "fine");
  EXPECT_EQ(op_.condition, Condition::kIfPresent);
  EXPECT_EQ(Check(MakePut("k", "v", v1::CONDITION_IF_VERSION, 9)), "fine");
  EXPECT_EQ(op_.condition, Condition::kIfVersion);
  EXPECT_EQ(op_.if_version, 9);
  EXPECT_THAT(Check(MakePut("k", "v", v1::CONDITION_IF_VERSION, 0)),
              AllOf(HasSubstr("VERSION_ZERO if_version"), HasSubstr("CONDITION_IF_ABSENT")));
  EXPECT_THAT(Check(MakePut("k", "v", v1::CONDITION_IF_ABSENT, 3)),
              HasSubstr("VERSION_WITHOUT_CONDITION if_version"));
  EXPECT_THAT(Check(MakePut("k", "v", static_cast<v1::Condition>(77))),
              AllOf(HasSubstr("UNKNOWN_CONDITION condition"), HasSubstr("77")));
}

TEST_F(RequestCheckTest, TtlBecomesAnAbsoluteTime) {
  EXPECT_EQ(Check(MakePut("k", "v")), "fine");
  EXPECT_EQ(op_.expiry_unix_ms, 0);
  EXPECT_EQ(CheckTtl(10, 0), "fine");
  EXPECT_EQ(op_.expiry_unix_ms, kNow + 10'000);
  EXPECT_EQ(CheckTtl(0, 1), "fine");
  EXPECT_EQ(op_.expiry_unix_ms, kNow + 1);
  EXPECT_EQ(CheckTtl(1, 1'000'001), "fine");
  EXPECT_EQ(op_.expiry_unix_ms, kNow + 1'002);
  for (const auto& [seconds, nanos] :
       std::vector<std::pair<int64_t, int32_t>>{{0, 0}, {-1, 0}, {-1, 1'000'000'000}, {0, -1}}) {
    EXPECT_THAT(CheckTtl(seconds, nanos),
                AllOf(HasSubstr("BAD_TTL ttl"), HasSubstr("must be more than 0")))
        << seconds << " " << nanos;
  }
  for (const auto& [seconds, nanos] : std::vector<std::pair<int64_t, int32_t>>{
           {5, -1}, {0, 1'000'000'000}, {1, 1'000'000'000}, {INT64_MAX, -1}}) {
    EXPECT_THAT(CheckTtl(seconds, nanos),
                AllOf(HasSubstr("BAD_TTL ttl"), HasSubstr("nanos must be from 0 to 999999999")))
        << seconds << " " << nanos;
  }
  for (const int64_t seconds : {INT64_MAX, int64_t{253'402'300'799}}) {
    EXPECT_THAT(CheckTtl(seconds, 0), AllOf(HasSubstr("BAD_TTL ttl"), HasSubstr("year 9999")));
  }
}

TEST_F(RequestCheckTest, Fixed64TakesEightBytesAndNoMore) {
  pool_.key_format = KeyFormat::kFixed64;
  EXPECT_EQ(Check(MakePut("12345678", "abcdefgh")), "fine");
  EXPECT_EQ(Check(MakePut("12345678", "abcdefgh", v1::CONDITION_IF_ABSENT)), "fine");
  for (const char* key : {"", "1234567", "123456789"}) {
    EXPECT_THAT(Check(MakePut(key, "abcdefgh")),
                AllOf(HasSubstr("NOT_IN_KEY_FORMAT key"), HasSubstr("fixed64")));
  }
  EXPECT_THAT(Check(MakePut("12345678", "")),
              AllOf(HasSubstr("NOT_IN_KEY_FORMAT value"), HasSubstr("fixed64")));
  EXPECT_THAT(Check(MakePut("12345678", "abcdefgh", v1::CONDITION_IF_VERSION, 1)),
              AllOf(HasSubstr("NOT_IN_KEY_FORMAT condition"), HasSubstr("fixed64")));
  v1::PutRequest request = MakePut("12345678", "abcdefgh");
  request.mutable_ttl()->set_seconds(1);
  EXPECT_THAT(Check(request), AllOf(HasSubstr("NOT_IN_KEY_FORMAT ttl"), HasSubstr("fixed64")));
}

TEST_F(RequestCheckTest, InlinePairsHaveNoVersionsAndNoTtl) {
  pool_.inline_pairs = true;
  EXPECT_EQ(Check(MakePut("k", "v", v1::CONDITION_IF_PRESENT)), "fine");
  EXPECT_THAT(Check(MakePut("k", "v", v1::CONDITION_IF_VERSION, 1)), HasSubstr("inline_pairs"));
  EXPECT_THAT(CheckTtl(1, 0), HasSubstr("inline_pairs"));
}

TEST_F(RequestCheckTest, ABatchNamesTheOperation) {
  v1::BatchWriteRequest request;
  EXPECT_EQ(Check(request), "fine");
  Add(request, "a");
  Add(request, "b", v1::OPERATION_KIND_DELETE);
  EXPECT_EQ(Check(request), "fine");
  v1::Operation* third = Add(request, "");
  EXPECT_THAT(Check(request), HasSubstr("KEY_EMPTY operations[2].key"));
  third->set_key("a");
  EXPECT_THAT(Check(request), HasSubstr("KEY_TWICE operations[2].key"));
  third->set_key("c");
  third->set_kind(v1::OPERATION_KIND_GET);
  EXPECT_THAT(Check(request), HasSubstr("BAD_KIND operations[2].kind"));
  third->set_kind(v1::OPERATION_KIND_UNSPECIFIED);
  EXPECT_THAT(Check(request), HasSubstr("BAD_KIND operations[2].kind"));
  third->set_kind(v1::OPERATION_KIND_DELETE);
  third->set_value("v");
  EXPECT_THAT(Check(request), HasSubstr("VALUE_WITHOUT_PUT operations[2].value"));
  third->clear_value();
  third->mutable_ttl()->set_seconds(1);
  EXPECT_THAT(Check(request), HasSubstr("TTL_WITHOUT_PUT operations[2].ttl"));
}

TEST_F(RequestCheckTest, ABatchHasItsBounds) {
  limits_.max_batch_operations = 3;
  limits_.max_batch_size = 10;
  v1::BatchWriteRequest request;
  for (const char* key : {"a", "b", "c"}) Add(request, key);
  request.mutable_operations(0)->set_value("1234567");
  EXPECT_EQ(Check(request), "fine");
  EXPECT_EQ(bytes_, 10u);
  request.mutable_operations(1)->set_value("8");
  EXPECT_THAT(Check(request), AllOf(HasSubstr("BATCH_TOO_LARGE operations"), HasSubstr("11 bytes"),
                                    HasSubstr("max_batch_size, 10")));
  Add(request, "d");
  EXPECT_THAT(Check(request), AllOf(HasSubstr("BATCH_TOO_LONG operations"),
                                    HasSubstr("more of them than max_batch_operations, 3")));
  EXPECT_EQ(Check({"a", "b", "c"}), "fine");
  EXPECT_EQ(bytes_, 3u);
  EXPECT_THAT(Check({"a", "", "c"}), HasSubstr("KEY_EMPTY keys[1]"));
  EXPECT_THAT(Check({"a", "0123456789", "c"}), HasSubstr("BATCH_TOO_LARGE keys"));
  EXPECT_THAT(Check({"a", "b", "c", "d"}), HasSubstr("BATCH_TOO_LONG keys"));
}

TEST(LimitsTest, GrpcsOwnLimitIsAboveEveryOther) {
  const Limits limits;
  EXPECT_GT(limits.MaxMessageSize(), limits.max_batch_size + limits.max_value_size);
  EXPECT_LT(limits.MaxMessageSize(), 2 * limits.max_batch_size);
}

}  // namespace
}  // namespace lodgekv::server
