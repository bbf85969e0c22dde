#include "server/rpc/call_messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/rpc/batch_answer.h"
#include "server/rpc/request_check.h"
#include "server/testing/test_daemon.h"
#include "tests/support/allocation_counter.h"

namespace lodgekv::server {
namespace {

// What the classes themselves take, and the allocator's rounding.
constexpr uint64_t kLittle = 3 * kKeptBytes;

// On the wire: `count` fields that no version knows, of two bytes each.
std::string UnknownFields(size_t count) {
  std::string wire;
  for (size_t i = 0; i < count; ++i) wire += std::string("\x78\x01", 2);  // field 15
  return wire;
}

std::string Repeat(const std::string& part, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += part;
  return all;
}

std::string OneOperation(const std::string& fields) {
  std::string wire;
  google::protobuf::io::StringOutputStream stream(&wire);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.WriteTag(0x0a);
  out.WriteVarint32(static_cast<uint32_t>(fields.size()));
  out.WriteString(fields);
  out.Trim();
  return wire;
}

using BatchWriteMessages = BatchMessages<BatchWriteFields>;
using BatchGetMessages = BatchMessages<BatchGetFields>;

// As it is received: in pieces of some KiB.
template <class Messages>
void Receive(Messages& messages, const std::string& wire) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < wire.size(); at += 8'192) slices.emplace_back(wire.substr(at, 8'192));
  messages.from_wire() = grpc::ByteBuffer(slices.data(), slices.size());
}

std::string ReasonOf(const std::optional<grpc::Status>& error) {
  return error ? testing::DetailsOf(*error).info.reason() : "none";
}

// The most that Parse may add to the wire's bytes.
constexpr uint64_t kMostBuilt = 1'024 * sizeof(OperationFields) + kMiB;

TEST(CallMessagesTest, ATooLongBatchIsNotParsed) {
  BatchWriteMessages messages;
  Receive(messages, Repeat(std::string("\x0a\x00", 2), 2'650'000));
  EXPECT_EQ(messages.WireBytes(), 5'300'000U);
  EXPECT_EQ(ReasonOf(messages.Parse(Limits())), "BATCH_TOO_LONG");
  // Measured before Clear.
  EXPECT_LT(messages.HeldBytes(), kLittle);
}

TEST(CallMessagesTest, AnInvalidMessageIsNotParsed) {
  const std::string unknown = UnknownFields(2'000'000);
  const std::string ttls = Repeat(std::string("\x32\x00", 2), 2'000'000);
  for (const auto& [wire, reason] :
       {std::pair(unknown, "TOO_MANY_FIELDS"), std::pair(OneOperation(unknown), "TOO_MANY_FIELDS"),
        std::pair(OneOperation(ttls), "TOO_MANY_FIELDS"),
        std::pair(std::string(5'000'000, '\xff'), "NO_MESSAGE")}) {
    BatchWriteMessages writes;
    Receive(writes, wire);
    EXPECT_EQ(ReasonOf(writes.Parse(Limits())), reason);
    EXPECT_LT(writes.HeldBytes(), kLittle);
  }
  BatchGetMessages gets;
  Receive(gets, unknown);
  EXPECT_EQ(ReasonOf(gets.Parse(Limits())), "TOO_MANY_FIELDS");
  EXPECT_LT(gets.HeldBytes(), kLittle);
}

TEST(CallMessagesTest, TheParsedSizeIsBounded) {
  // Unknown fields as number, bytes and group; a key, a ttl.
  for (const std::string& field :
       {std::string("\x78\x01", 2), std::string("\x7a\x00", 2), std::string("\x7b\x7c", 2),
        std::string("\x12\x00", 2), std::string("\x32\x00", 2)}) {
    const std::string fields =
        Repeat(field, field[0] == '\x7b' ? kMaxFieldsOfAMessage / 2 : kMaxFieldsOfAMessage);
    const std::string wire = Repeat(OneOperation(fields), 1'024);
    BatchWriteMessages messages;
    Receive(messages, wire);
    EXPECT_FALSE(messages.Parse(Limits()).has_value());
    EXPECT_LT(messages.HeldBytes(), wire.size() + kMostBuilt) << static_cast<int>(field[0]);
  }
}

TEST(CallMessagesTest, AParseErrorIsRefusedWithAReason) {
  BatchWriteMessages messages;
  Receive(messages, std::string("\x02\x00", 2));  // a field 0: the check counts it as any field
  EXPECT_EQ(ReasonOf(messages.Parse(Limits())), "NO_MESSAGE");
  EXPECT_EQ(messages.WireBytes(), 0U);
}

TEST(CallMessagesTest, AServedBatchKeepsNoMemory) {
  BatchWriteMessages messages;
  v1::BatchWriteRequest request;
  for (int i = 0; i < 1'024; ++i) request.add_operations()->set_value(std::string(4'000, 'v'));
  Receive(messages, request.SerializeAsString());
  EXPECT_FALSE(messages.Parse(Limits()).has_value());
  EXPECT_EQ(messages.WireBytes(), 0U);
  EXPECT_EQ(messages.request().entries.size(), 1'024U);
  EXPECT_EQ(messages.request().entries[1'023].value, request.operations(1'023).value());
  EXPECT_GT(messages.HeldBytes(), 4 * kMiB * 9 / 10);
  messages.Clear();
  EXPECT_LT(messages.HeldBytes(), kLittle);
  EXPECT_EQ(messages.request().entries.size(), 0U);
}

TEST(CallMessagesTest, ASmallBatchKeepsItsSpace) {
  BatchGetMessages messages;
  v1::BatchGetRequest request;
  for (int i = 0; i < 100; ++i) request.add_keys("key");
  Receive(messages, request.SerializeAsString());
  EXPECT_FALSE(messages.Parse(Limits()).has_value());
  const void* before = messages.request().entries.data();
  messages.Clear();
  EXPECT_EQ(messages.request().entries.data(), before);
  EXPECT_LT(messages.HeldBytes(), kLittle);
}

// Allocations from the bytes of a batch of so many puts to its answer, without gRPC's.
uint64_t AllocationsOfBatch(int puts) {
  v1::BatchWriteRequest request;
  for (int i = 0; i < puts; ++i) {
    v1::Operation& operation = *request.add_operations();
    operation.set_kind(v1::OPERATION_KIND_PUT);
    operation.set_key(std::to_string(i) + std::string(40, 'k'));
    operation.set_value(std::string(100, 'v'));
    operation.mutable_ttl()->set_seconds(1);
  }
  const Limits limits;
  BatchWriteMessages messages;
  Receive(messages, request.SerializeAsString());
  std::vector<WriteOp> ops;
  std::vector<WriteResult> results(static_cast<size_t>(puts));
  uint64_t bytes = 0;
  const uint64_t before = ThreadAllocations();
  EXPECT_FALSE(messages.Parse(limits).has_value());
  EXPECT_FALSE(ToWriteOps(messages.request().entries, {.limits = limits, .pool = {}}, ops, bytes));
  EXPECT_GT(WriteResultsOnWire(results).size(), 0U);
  return ThreadAllocations() - before;
}

TEST(CallMessagesTest, NothingIsAllocatedForEachOperation) {
  EXPECT_EQ(AllocationsOfBatch(100), AllocationsOfBatch(1'000));
  EXPECT_LE(AllocationsOfBatch(100), 5U);
}

using PutMessages = PointMessages<&ParsePut>;

TEST(CallMessagesTest, ALargePutKeepsNoMemory) {
  PutMessages messages;
  v1::PutRequest request;
  request.set_key("k");
  request.set_value(std::string(kMiB, 'v'));
  request.mutable_ttl()->set_seconds(1);
  ASSERT_TRUE(request.mutable_ttl()->MergeFromString(UnknownFields(100'000)));
  const std::string wire = request.SerializeAsString() + UnknownFields(100'000);
  Receive(messages, wire);
  EXPECT_FALSE(messages.Parse(Limits()).has_value());
  EXPECT_EQ(messages.WireBytes(), 0U);
  EXPECT_EQ(messages.RequestBytes(), wire.size());
  EXPECT_LT(messages.HeldBytes(), wire.size() + kLittle);
  EXPECT_EQ(messages.request().op.value, request.value());
  EXPECT_EQ(messages.request().op.ttl->seconds, 1);
  messages.Clear();
  EXPECT_LT(messages.HeldBytes(), kLittle);
  EXPECT_FALSE(messages.request().op.ttl.has_value());
}

TEST(CallMessagesTest, ASmallPutReusesItsSpace) {
  PutMessages messages;
  v1::PutRequest request;
  request.set_key(std::string(100, 'k'));
  const void* before = nullptr;
  for (int i = 0; i < 2; ++i) {
    Receive(messages, request.SerializeAsString());
    EXPECT_FALSE(messages.Parse(Limits()).has_value());
    EXPECT_EQ(messages.request().op.key, request.key());
    EXPECT_TRUE(i == 0 || messages.request().op.key.data() == before);
    before = messages.request().op.key.data();
    messages.Clear();
  }
}

TEST(CallMessagesTest, BytesThatAreNoRequestAreRefused) {
  PutMessages messages;
  Receive(messages, std::string("\x0a\x05k", 3));
  EXPECT_EQ(ReasonOf(messages.Parse(Limits())), "NO_MESSAGE");
}

}  // namespace
}  // namespace lodgekv::server
