#include "server/rpc/point_answer.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lodgekv/v1/kv.pb.h"
#include "server/base/limits.h"

namespace lodgekv::server {
namespace {

template <class Message>
Message Parse(grpc::ByteBuffer wire) {
  Message message;
  EXPECT_TRUE(grpc::SerializationTraits<Message>::Deserialize(&wire, &message).ok());
  return message;
}

ReadResult Found(const std::string& value) {
  ReadResult result;
  result.found = true;
  result.value = value;
  return result;
}

TEST(PointAnswerTest, WritesEveryFieldOfAGet) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{kCopiedBytes}, size_t{kCopiedBytes + 1}, size_t{3'000'000}}) {
    const std::string value(size, 'v');
    for (const uint64_t version : {0, 700}) {
      ReadResult result = Found(value);
      result.version = version;
      result.expiry_unix_ms = 1'234'567;
      const auto answer = Parse<v1::GetResponse>(GetAnswerOnWire(result));
      EXPECT_TRUE(answer.found());
      EXPECT_EQ(answer.value(), value);
      EXPECT_EQ(answer.version(), version);
      EXPECT_EQ(answer.expire_time().seconds(), 1'234);
      EXPECT_EQ(answer.expire_time().nanos(), 567'000'000);
    }
  }
}

TEST(PointAnswerTest, AMissingKeyIsAnEmptyAnswer) {
  ReadResult result = Found("what an earlier call left");
  result.found = false;
  EXPECT_EQ(GetAnswerOnWire(result).Length(), 0);
}

TEST(PointAnswerTest, ALargeValueIsNotCopied) {
  ReadResult result = Found(std::string(kMiB, 'v'));
  const char* before = result.value.data();
  grpc::ByteBuffer wire = GetAnswerOnWire(result);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(wire.Dump(&slices).ok());
  bool shared = false;
  for (const grpc::Slice& slice : slices) {
    shared |= reinterpret_cast<const char*>(slice.begin()) == before;
  }
  EXPECT_TRUE(shared);
}

TEST(PointAnswerTest, WritesTheAnswersOfWrites) {
  EXPECT_EQ(Parse<v1::PutResponse>(PutAnswerOnWire(300)).version(), 300);
  EXPECT_EQ(PutAnswerOnWire(0).Length(), 0);
  EXPECT_TRUE(Parse<v1::DeleteResponse>(DeleteAnswerOnWire(true)).found());
  EXPECT_EQ(DeleteAnswerOnWire(false).Length(), 0);
}

}  // namespace
}  // namespace lodgekv::server
