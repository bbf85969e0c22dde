#include "server/call_messages.h"

#include <gtest/gtest.h>

#include <string>

namespace lodgekv::server {
namespace {

// What the classes themselves take, and the allocator's rounding.
constexpr uint64_t kLittle = 3 * kKeptBytes;

// On the wire, `count` fields that no version knows, two bytes each.
std::string UnknownFields(size_t count) {
  std::string wire;
  for (size_t i = 0; i < count; ++i) wire += std::string("\x78\x01", 2);  // field 15
  return wire;
}

template <class Message>
bool Parse(Message& message, const std::string& wire) {
  return message.ParseFromString(wire);
}

TEST(CallMessages, ABatchOfEmptyOperationsLeavesNothing) {
  ArenaMessages<v1::BatchWriteRequest, v1::BatchWriteResponse> messages;
  std::string wire;
  for (int i = 0; i < 2'650'000; ++i) wire += std::string("\x0a\x00", 2);
  ASSERT_TRUE(Parse(messages.request(), wire));
  EXPECT_EQ(messages.request().operations_size(), 2'650'000);
  EXPECT_GT(messages.HeldBytes(), 200 * kMiB);
  messages.LetGo();
  EXPECT_LT(messages.HeldBytes(), kLittle);
  EXPECT_EQ(messages.request().operations_size(), 0);
}

TEST(CallMessages, UnknownFieldsAreDroppedWhereverTheyStand) {
  ArenaMessages<v1::BatchWriteRequest, v1::BatchWriteResponse> messages;
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

TEST(CallMessages, OfASingleCallUnknownFieldsAndLongStringsGo) {
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
  messages.LetGo();
  EXPECT_LT(messages.HeldBytes(), kLittle);
}

TEST(CallMessages, AShortStringIsUsedAgain) {
  KeptMessages<v1::PutRequest, v1::PutResponse> messages;
  messages.request().mutable_key()->assign(100, 'k');
  const void* before = messages.request().key().data();
  messages.LetGo();
  messages.request().Clear();
  messages.request().mutable_key()->assign(100, 'l');
  EXPECT_EQ(messages.request().key().data(), before);
}

TEST(CallMessages, EveryOtherRequestLosesItsUnknownFields) {
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
