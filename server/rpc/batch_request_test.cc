#include "server/rpc/batch_request.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace lodgekv::server {
namespace {

constexpr uint64_t kSeed = 7;

// Fields that no version knows: a number, bytes, 4 and 8 bytes, a group.
const std::vector<std::string> kUnknown{
    std::string("\x78\x01", 2), std::string("\x7a\x01x", 3), std::string("\x7d\0\0\0\x01", 5),
    std::string("\x79\0\0\0\0\0\0\0\x01", 9), std::string("\x7b\x08\x01\x7c", 4)};

// As protobuf sees the operation.
void ExpectEqual(const OperationFields& fields, const v1::Operation& operation) {
  EXPECT_EQ(fields.kind, operation.kind());
  EXPECT_EQ(fields.condition, operation.condition());
  EXPECT_EQ(fields.key, operation.key());
  EXPECT_EQ(fields.value, operation.value());
  EXPECT_EQ(fields.if_version, operation.if_version());
  ASSERT_EQ(fields.ttl.has_value(), operation.has_ttl());
  if (!fields.ttl) return;
  EXPECT_EQ(fields.ttl->seconds, operation.ttl().seconds());
  EXPECT_EQ(fields.ttl->nanos, operation.ttl().nanos());
}

// Both parsers, over the same bytes: what protobuf accepts is accepted, and the same is seen.
void ExpectSameAsProtobuf(const std::string& wire) {
  v1::BatchWriteRequest expected;
  if (!expected.ParseFromString(wire)) return;
  BatchWriteFields batch;
  ASSERT_TRUE(ParseBatch(wire, 0, &batch));
  EXPECT_EQ(batch.want_cost, expected.want_cost());
  ASSERT_EQ(batch.entries.size(), static_cast<size_t>(expected.operations_size()));
  for (int i = 0; i < expected.operations_size(); ++i) {
    ExpectEqual(batch.entries[static_cast<size_t>(i)], expected.operations(i));
  }
}

void ExpectSameAsProtobufOfASession(const std::string& wire) {
  v1::SessionRequest expected;
  if (!expected.ParseFromString(wire)) return;
  SessionFields message;
  ASSERT_TRUE(ParseBatch(wire, 0, &message));
  EXPECT_EQ(message.id, expected.id());
  EXPECT_EQ(message.atomic, expected.atomic());
  EXPECT_EQ(message.want_cost, expected.want_cost());
  ASSERT_EQ(message.entries.size(), static_cast<size_t>(expected.operations_size()));
  for (int i = 0; i < expected.operations_size(); ++i) {
    ExpectEqual(message.entries[static_cast<size_t>(i)], expected.operations(i));
  }
}

class BatchRequestTest : public ::testing::Test {
 protected:
  uint64_t Draw(uint64_t bound) { return random_() % bound; }
  std::string Bytes() { return std::string(Draw(40), static_cast<char>(Draw(256))); }
  // Small and large ones, also such as no enum and no int32 has.
  uint64_t Number() { return random_() >> Draw(64); }

  // Some fields of an operation, in any order, some of them twice.
  std::string Fields() {
    std::string wire;
    for (uint64_t i = Draw(8); i > 0; --i) {
      v1::Operation one;
      switch (Draw(8)) {
        case 0: one.set_kind(static_cast<v1::OperationKind>(Number())); break;
        case 1: one.set_key(Bytes()); break;
        case 2: one.set_value(Bytes()); break;
        case 3: one.set_condition(static_cast<v1::Condition>(Number())); break;
        case 4: one.set_if_version(Number()); break;
        case 5: one.mutable_ttl()->set_seconds(static_cast<int64_t>(Number())); break;
        case 6: one.mutable_ttl()->set_nanos(static_cast<int32_t>(Number())); break;
        default: wire += kUnknown[Draw(kUnknown.size())];
      }
      wire += one.SerializeAsString();
    }
    return wire;
  }

  // Operations, and some of the other fields between them.
  std::string Message(char operation_tag, const std::vector<std::string>& others) {
    std::string wire;
    for (uint64_t i = Draw(6); i > 0; --i) {
      const std::string fields = Fields();
      // The tag and length of an operation, up to 16,383 bytes.
      wire += operation_tag;
      wire += static_cast<char>(fields.size() % 128 | 128);
      wire += static_cast<char>(fields.size() / 128);
      wire += fields;
      if (Draw(4) == 0) wire += kUnknown[Draw(kUnknown.size())];
      if (Draw(4) == 0) wire += others[Draw(others.size())];
    }
    return wire;
  }
  std::string Batch() { return Message('\x0a', {"\x10\x01"}); }  // want_cost
  std::string OfSession() {                                      // id, atomic, want_cost
    return Message('\x12', {"\x08\xff\x07", "\x18\x01", std::string("\x18\0", 2), "\x20\x01"});
  }

  std::mt19937_64 random_{kSeed};
};

TEST_F(BatchRequestTest, SeesWhatProtobufSees) {
  for (int i = 0; i < 20'000; ++i) ExpectSameAsProtobuf(Batch());
}

TEST_F(BatchRequestTest, SeesWhatProtobufSeesOfASession) {
  for (int i = 0; i < 20'000; ++i) ExpectSameAsProtobufOfASession(OfSession());
}

TEST_F(BatchRequestTest, SeesTheSameInDamagedBytes) {
  for (int i = 0; i < 40'000; ++i) {
    const bool of_session = i % 2 == 0;
    std::string wire = of_session ? OfSession() : Batch();
    if (wire.empty()) continue;
    wire[Draw(wire.size())] = static_cast<char>(Draw(256));
    (of_session ? ExpectSameAsProtobufOfASession : ExpectSameAsProtobuf)(wire);
  }
}

TEST_F(BatchRequestTest, RefusesWhatIsNoMessage) {
  const std::string ttl("\x32\x04\x08\x01\x10\x02", 6);
  const std::string operation = std::string("\x0a\x0d\x08\x01\x12\x03key", 9) + ttl;
  BatchWriteFields whole;
  ASSERT_TRUE(ParseBatch(operation, 1, &whole));
  ASSERT_EQ(whole.entries[0].ttl->nanos, 2);
  for (size_t size = 1; size < operation.size(); ++size) {
    BatchWriteFields batch;
    EXPECT_FALSE(ParseBatch(operation.substr(0, size), 1, &batch)) << size;
  }
  // A field 0; wire types that there are not; an end of a group that has not begun, and of another
  // one; a length above all bytes.
  for (const std::string& bytes :
       {std::string("\0", 1), std::string("\x02\0", 2), std::string("\x7e"), std::string("\x7f"),
        std::string("\x7c"), std::string("\x7b\x74"), std::string("\x0a\xff\xff\xff\xff\x0f")}) {
    for (const std::string& wire :
         {bytes, std::string("\x0a") + static_cast<char>(bytes.size()) + bytes}) {
      BatchWriteFields batch;
      EXPECT_FALSE(ParseBatch(wire, 1, &batch));
      EXPECT_FALSE(v1::BatchWriteRequest().ParseFromString(wire));
    }
  }
}

TEST_F(BatchRequestTest, KeysAreViewsOfTheBytes) {
  v1::BatchGetRequest request;
  request.add_keys("one");
  request.add_keys("");
  request.add_keys(std::string(1'000, 'k'));
  request.set_want_cost(true);
  const std::string wire = request.SerializeAsString() + kUnknown[0];
  BatchGetFields batch;
  ASSERT_TRUE(ParseBatch(wire, 3, &batch));
  EXPECT_TRUE(batch.want_cost);
  ASSERT_EQ(batch.entries.size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(batch.entries[static_cast<size_t>(i)], request.keys(i));
  EXPECT_EQ(batch.entries[0].data(), wire.data() + 2);
  EXPECT_FALSE(ParseBatch(wire.substr(0, wire.size() - 1), 3, &batch));
}

TEST_F(BatchRequestTest, AnEmptyMessageIsABatch) {
  ExpectSameAsProtobuf("");
  BatchGetFields batch;
  EXPECT_TRUE(ParseBatch("", 0, &batch));
  EXPECT_TRUE(batch.entries.empty());
}

}  // namespace
}  // namespace lodgekv::server
