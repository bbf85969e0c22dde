#include "server/rpc/rpc_recorder.h"

#include <gtest/gtest.h>

namespace lodgekv::server {
namespace {

uint64_t BucketOf(uint64_t latency_ns, size_t bucket) {
  RpcRecorder recorder;
  recorder.Record(Method::kPut, grpc::StatusCode::OK, latency_ns);
  return recorder.cell(static_cast<size_t>(Method::kPut), 0).buckets[bucket].Get();
}

TEST(RpcRecorderTest, ABucketIncludesItsUpperBound) {
  EXPECT_EQ(BucketOf(0, 0), 1);
  EXPECT_EQ(BucketOf(1'000, 0), 1);
  EXPECT_EQ(BucketOf(1'001, 1), 1);
  EXPECT_EQ(BucketOf(1'000'000'000, kLatencyBoundsNs.size() - 1), 1);
  EXPECT_EQ(BucketOf(1'000'000'001, kLatencyBoundsNs.size()), 1);
}

TEST(RpcRecorderTest, CountsByCallAndCode) {
  RpcRecorder recorder;
  recorder.Record(Method::kGet, grpc::StatusCode::OK, 1'500);
  recorder.Record(Method::kGet, grpc::StatusCode::DATA_LOSS, 10);
  recorder.Record(Method::kScan, grpc::StatusCode::OK, 20);
  const auto& get = recorder.cell(static_cast<size_t>(Method::kGet), 0);
  EXPECT_EQ(get.sum_ns.Get(), 1'500);
  EXPECT_EQ(get.buckets[1].Get(), 1);
  EXPECT_EQ(recorder.cell(0, static_cast<size_t>(grpc::StatusCode::DATA_LOSS)).sum_ns.Get(), 10);
  EXPECT_EQ(recorder.cell(static_cast<size_t>(Method::kScan), 0).sum_ns.Get(), 20);
}

TEST(RpcRecorderTest, AddsUpTheCostOfEachCall) {
  RpcRecorder recorder;
  recorder.RecordCost(Method::kPut, {5, 1, 2, 300});
  recorder.RecordCost(Method::kPut, {2, 0, 1, 20});
  recorder.RecordCost(Method::kDelete, {1, 1, 1, 8});
  const Cost put = recorder.cost(static_cast<size_t>(Method::kPut));
  EXPECT_EQ(put.lines_flushed, 7);
  EXPECT_EQ(put.fences, 1);
  EXPECT_EQ(put.media_writes_256b, 3);
  EXPECT_EQ(put.bytes_stored, 320);
  EXPECT_EQ(recorder.cost(static_cast<size_t>(Method::kDelete)).bytes_stored, 8);
  EXPECT_EQ(recorder.cost(static_cast<size_t>(Method::kGet)).lines_flushed, 0);
}

TEST(RpcRecorderTest, CountsTheWritesThatChangedSomething) {
  RpcRecorder recorder;
  const WriteOp put{.kind = WriteKind::kPut, .key = "key", .value = "value"};
  const WriteOp del{.kind = WriteKind::kDelete, .key = "key"};
  recorder.RecordWrite(put, {.outcome = Outcome::kOk});
  recorder.RecordWrite(put, {.outcome = Outcome::kPoolFull});
  recorder.RecordWrite(del, {.outcome = Outcome::kOk, .found = true});
  recorder.RecordWrite(del, {.outcome = Outcome::kOk, .found = false});
  EXPECT_EQ(recorder.write_operations(), 2u);
  EXPECT_EQ(recorder.write_bytes(), 8u + 3u);
}

TEST(RpcRecorderTest, NamesEveryCode) {
  EXPECT_EQ(CodeName(grpc::StatusCode::OK), "OK");
  EXPECT_EQ(CodeName(grpc::StatusCode::INVALID_ARGUMENT), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeName(grpc::StatusCode::DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
  EXPECT_EQ(CodeName(grpc::StatusCode::RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(CodeName(grpc::StatusCode::FAILED_PRECONDITION), "FAILED_PRECONDITION");
  EXPECT_EQ(CodeName(grpc::StatusCode::UNIMPLEMENTED), "UNIMPLEMENTED");
  EXPECT_EQ(CodeName(grpc::StatusCode::UNAVAILABLE), "UNAVAILABLE");
  EXPECT_EQ(CodeName(grpc::StatusCode::DATA_LOSS), "DATA_LOSS");
  EXPECT_EQ(CodeName(grpc::StatusCode::UNAUTHENTICATED), "UNAUTHENTICATED");
  EXPECT_EQ(CodeName(static_cast<grpc::StatusCode>(99)), "UNKNOWN");
}

}  // namespace
}  // namespace lodgekv::server
