#include "server/rpc/batch_wire.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "lodgekv/v1/kv.pb.h"
#include "server/testing/test_daemon.h"

namespace lodgekv::server {
namespace {

using google::protobuf::io::ArrayInputStream;
using testing::CodeAndReason;
using Verdict = BatchOnWire::Verdict;

constexpr uint64_t kMost = 1'024;
constexpr BatchKind kWrite = BatchKind::kWrite;
constexpr BatchKind kGet = BatchKind::kGet;

std::string Repeat(const std::string& part, uint64_t count) {
  std::string all;
  for (uint64_t i = 0; i < count; ++i) all += part;
  return all;
}

std::string Field(int number, const std::string& content) {
  EXPECT_LT(content.size(), 128U);  // so that the length takes one byte
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} +
         content;
}

// Fields that no version knows: a number, bytes, a group.
const std::string kUnknownNumber("\x78\x01", 2);
const std::string kUnknownBytes("\x7a\x01x", 3);
const std::string kUnknownGroup("\x7b\x08\x01\x7c", 4);

// In blocks of so many bytes, as they are received from a connection; 0: in one.
BatchOnWire Look(BatchKind kind, const std::string& wire, int block = 0) {
  ArrayInputStream stream(wire.data(), static_cast<int>(wire.size()), block == 0 ? -1 : block);
  return InspectBatch(kind, stream, kMost);
}

TEST(BatchWireTest, CountsEntries) {
  v1::BatchWriteRequest writes;
  v1::BatchGetRequest gets;
  for (int i = 0; i < 1'000; ++i) {
    v1::Operation& operation = *writes.add_operations();
    operation.set_kind(v1::OPERATION_KIND_PUT);
    operation.set_key("key" + std::to_string(i));
    operation.set_value(std::string(200, 'v'));
    operation.set_condition(v1::CONDITION_IF_VERSION);
    operation.set_if_version(1'000'000);
    operation.mutable_ttl()->set_seconds(1'000'000);
    operation.mutable_ttl()->set_nanos(1);
    gets.add_keys(operation.key());
  }
  writes.set_want_cost(true);
  gets.set_want_cost(true);
  for (const int block : {0, 1, 7, 8'192}) {
    for (const auto& [kind, wire] : {std::pair(kWrite, writes.SerializeAsString()),
                                     std::pair(kGet, gets.SerializeAsString())}) {
      const BatchOnWire batch = Look(kind, wire, block);
      EXPECT_EQ(batch.verdict, Verdict::kFine);
      EXPECT_EQ(batch.entries, 1'000U);
    }
  }
  EXPECT_EQ(Look(kWrite, "").verdict, Verdict::kFine);
  EXPECT_EQ(Look(kWrite, "").entries, 0U);
}

TEST(BatchWireTest, StopsAtTheFirstEntryTooMany) {
  const std::string most = Repeat(Field(1, ""), kMost);
  for (const BatchKind kind : {kWrite, kGet}) {
    EXPECT_EQ(Look(kind, most).verdict, Verdict::kFine);
    // What follows is no message.
    const std::string wire = most + Field(1, "") + std::string(5 * kMiB, '\xff');
    ArrayInputStream stream(wire.data(), static_cast<int>(wire.size()), 4'096);
    EXPECT_EQ(InspectBatch(kind, stream, kMost).verdict, Verdict::kTooManyEntries);
    EXPECT_LE(stream.ByteCount(), 4'096);
  }
}

TEST(BatchWireTest, FieldsOfAnOperationAreLimited) {
  const std::string nanos("\x10\x01", 2);
  for (const std::string& field :
       {kUnknownNumber, kUnknownBytes, Field(2, "k"), Field(6, ""), std::string("\x08\x01", 2)}) {
    EXPECT_EQ(Look(kWrite, Field(1, Repeat(field, kMaxFieldsOfAMessage))).verdict, Verdict::kFine);
    EXPECT_EQ(Look(kWrite, Field(1, Repeat(field, kMaxFieldsOfAMessage + 1))).verdict,
              Verdict::kTooManyFields);
  }
  // The fields of a ttl count, and the ttl itself; those of a group, and its start and end.
  EXPECT_EQ(Look(kWrite, Field(1, Field(6, Repeat(nanos, kMaxFieldsOfAMessage - 1)))).verdict,
            Verdict::kFine);
  EXPECT_EQ(Look(kWrite, Field(1, Field(6, Repeat(nanos, kMaxFieldsOfAMessage)))).verdict,
            Verdict::kTooManyFields);
  EXPECT_EQ(Look(kWrite, Field(1, Repeat(kUnknownGroup, kMaxFieldsOfAMessage / 3 + 1))).verdict,
            Verdict::kTooManyFields);
  // Each operation has as many.
  EXPECT_EQ(
      Look(kWrite, Repeat(Field(1, Repeat(kUnknownNumber, kMaxFieldsOfAMessage)), kMost)).verdict,
      Verdict::kFine);
}

TEST(BatchWireTest, FieldsOtherThanEntriesAreLimited) {
  for (const BatchKind kind : {kWrite, kGet}) {
    const std::string entries = Repeat(Field(1, ""), 100);
    for (const std::string& field : {kUnknownNumber, kUnknownBytes}) {
      const std::string most = Repeat(field, kMaxFieldsOfAMessage);
      EXPECT_EQ(Look(kind, entries + most).verdict, Verdict::kFine);
      EXPECT_EQ(Look(kind, entries + most + field).verdict, Verdict::kTooManyFields);
    }
  }
}

TEST(BatchWireTest, EntriesInsideAGroupDoNotCount) {
  const BatchOnWire batch = Look(kWrite, "\x7b" + Repeat(Field(1, ""), 3) + "\x7c" + Field(1, ""));
  EXPECT_EQ(batch.verdict, Verdict::kFine);
  EXPECT_EQ(batch.entries, 1U);
}

TEST(BatchWireTest, ATruncatedMessageIsRefused) {
  const std::string value = Field(3, std::string(kMaxFieldsOfAMessage, 'v'));
  const std::string whole = Field(1, value + Field(6, std::string("\x08\x01", 2)));
  for (size_t length = 1; length < whole.size(); ++length) {
    EXPECT_EQ(Look(kWrite, whole.substr(0, length)).verdict, Verdict::kNoMessage) << length;
    EXPECT_EQ(Look(kGet, whole.substr(0, length)).verdict, Verdict::kNoMessage) << length;
  }
  for (const std::string wire : {"\x7b", "\x7c", "\x7e", "\x7f", "\xff\xff\xff\xff\xff"}) {
    EXPECT_EQ(Look(kWrite, wire).verdict, Verdict::kNoMessage);
    EXPECT_EQ(Look(kWrite, Field(1, value + wire)).verdict, Verdict::kNoMessage);
  }
}

TEST(BatchWireTest, NamesTheError) {
  const auto check = [](BatchKind kind, const std::string& wire) {
    ArrayInputStream stream(wire.data(), static_cast<int>(wire.size()));
    uint64_t entries = 0;
    const auto error = CheckBatchOnWire(kind, stream, Limits(), &entries);
    return error ? CodeAndReason(*error) + " | " + error->error_message() : "fine";
  };
  const std::string more = Repeat(Field(1, ""), kMost + 1);
  EXPECT_EQ(check(kWrite, Field(1, "")), "fine");
  EXPECT_EQ(check(kWrite, more),
            "INVALID_ARGUMENT BATCH_TOO_LONG | operations: more of them than "
            "max_batch_operations, 1024");
  EXPECT_EQ(check(kGet, more),
            "INVALID_ARGUMENT BATCH_TOO_LONG | keys: more of them than max_batch_operations, 1024");
  EXPECT_EQ(check(kWrite, Repeat(kUnknownNumber, 33)),
            "INVALID_ARGUMENT TOO_MANY_FIELDS | operations: more than 32 fields in one of them, or "
            "outside them");
  EXPECT_EQ(check(kGet, "\x0a"),
            "INVALID_ARGUMENT NO_MESSAGE | the request is not a message of this call: its bytes "
            "cannot be parsed");
}

}  // namespace
}  // namespace lodgekv::server
