#include "server/rpc/call_messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/testing/test_daemon.h"

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

template <class Message>
bool Parse(Message& message, const std::string& wire) {
  return message.ParseFromString(wire);
}

using BatchWriteMessages = ArenaMessages<v1::BatchWriteRequest, v1::BatchWriteResponse>;
using BatchGetMessages = ArenaMessages<v1::BatchGetRequest, v1::BatchGetResponse>;

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

// The most that Parse may add to the wire's bytes: for each of 1,024 operations its fields, of at
// most 128 bytes beyond their content, and the blocks of the arena.
constexpr uint64_t kMostBuilt = 1'024 * kMaxFieldsOfAMessage * 128 + kMiB;

TEST(CallMessagesTest, ATooLongBatchIsNotParsed) {
  BatchWriteMessages messages;
  Receive(messages, Repeat(std::string("\x0a\x00", 2), 2'650'000));
  EXPECT_EQ(messages.WireBytes(), 5'300'000U);
  EXPECT_EQ(ReasonOf(messages.Parse(Limits())), "BATCH_TOO_LONG");
  // Measured before Clear: an arena keeps what it has allocated.
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
    // Parsed once more, to see it before unknown fields are dropped.
    ASSERT_TRUE(Parse(messages.request(), wire));
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
  EXPECT_EQ(messages.request().operations_size(), 1'024);
  EXPECT_GT(messages.HeldBytes(), 4 * kMiB * 9 / 10);
  messages.Clear();
  EXPECT_LT(messages.HeldBytes(), kLittle);
  EXPECT_EQ(messages.request().operations_size(), 0);
}

TEST(CallMessagesTest, UnknownFieldsAreDroppedEverywhere) {
  BatchWriteMessages messages;
  v1::Operation operation;
  operation.set_key("k");
  operation.mutable_ttl()->set_seconds(1);
  ASSERT_TRUE(operation.mutable_ttl()->MergeFromString(UnknownFields(100'000)));
  ASSERT_TRUE(operation.MergeFromString(UnknownFields(100'000)));
  v1::BatchWriteRequest request;
  *request.add_operations() = operation;
  ASSERT_TRUE(Parse(messages.request(), request.SerializeAsString() + UnknownFields(100'000)));
  EXPECT_GT(messages.HeldBytes(), 3 * 100'000 * 16U);
  DropUnknown(messages.request());
  EXPECT_LT(messages.HeldBytes(), kLittle);
  EXPECT_EQ(messages.request().operations(0).key(), "k");
  EXPECT_EQ(messages.request().operations(0).ttl().seconds(), 1);
}

TEST(CallMessagesTest, ASingleCallKeepsNoUnknownFieldsAndNoLongStrings) {
  KeptMessages<v1::PutRequest, v1::PutResponse> messages;
  v1::PutRequest request;
  request.set_key("k");
  request.set_value(std::string(kMiB, 'v'));
  request.mutable_ttl()->set_seconds(1);
  ASSERT_TRUE(request.mutable_ttl()->MergeFromString(UnknownFields(100'000)));
  ASSERT_TRUE(Parse(messages.request(), request.SerializeAsString() + UnknownFields(100'000)));
  DropUnknown(messages.request());
  EXPECT_LT(messages.HeldBytes(), kMiB + kLittle);
  EXPECT_EQ(messages.request().value().size(), kMiB);
  messages.Clear();
  EXPECT_LT(messages.HeldBytes(), kLittle);
}

TEST(CallMessagesTest, AShortStringIsReused) {
  KeptMessages<v1::PutRequest, v1::PutResponse> messages;
  messages.request().mutable_key()->assign(100, 'k');
  const void* before = messages.request().key().data();
  messages.Clear();
  messages.request().Clear();
  messages.request().mutable_key()->assign(100, 'l');
  EXPECT_EQ(messages.request().key().data(), before);
}

TEST(CallMessagesTest, EveryOtherRequestLosesItsUnknownFields) {
  v1::GetRequest get;
  v1::DeleteRequest del;
  v1::ScanRequest scan;
  v1::BatchGetRequest batch_get;
  ASSERT_TRUE(Parse(get, UnknownFields(10)) && Parse(del, UnknownFields(10)));
  ASSERT_TRUE(Parse(scan, UnknownFields(10)) && Parse(batch_get, UnknownFields(10)));
  DropUnknown(get);
  DropUnknown(del);
  DropUnknown(scan);
  DropUnknown(batch_get);
  EXPECT_EQ(get.ByteSizeLong() + del.ByteSizeLong() + scan.ByteSizeLong(), 0U);
  EXPECT_EQ(batch_get.ByteSizeLong(), 0U);
}

}  // namespace
}  // namespace lodgekv::server
