#include "server/rpc/page_writer.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <gtest/gtest.h>

#include <string>

#include "lodgekv/v1/kv.pb.h"

namespace lodgekv::server {
namespace {

v1::ScanResponse Parse(grpc::ByteBuffer wire) {
  v1::ScanResponse page;
  EXPECT_TRUE(grpc::SerializationTraits<v1::ScanResponse>::Deserialize(&wire, &page).ok());
  return page;
}

TEST(PageWriterTest, WritesEveryField) {
  PageWriter writer;
  writer.Add({.key = "k", .value = "v", .version = 7, .expiry_unix_ms = 1'234'567}, false);
  writer.Add({.key = "l", .value = "left out", .version = 0, .expiry_unix_ms = 0}, true);
  EXPECT_EQ(writer.items(), 2);
  EXPECT_EQ(writer.last_key(), "l");
  writer.SetContinuation("l");
  const v1::ScanResponse page = Parse(writer.Take());
  ASSERT_EQ(page.items_size(), 2);
  EXPECT_EQ(page.items(0).key(), "k");
  EXPECT_EQ(page.items(0).value(), "v");
  EXPECT_EQ(page.items(0).version(), 7);
  EXPECT_EQ(page.items(0).expire_time().seconds(), 1'234);
  EXPECT_EQ(page.items(0).expire_time().nanos(), 567'000'000);
  EXPECT_EQ(page.items(1).value(), "");
  EXPECT_FALSE(page.items(1).has_expire_time());
  EXPECT_EQ(page.continuation(), "l");
}

TEST(PageWriterTest, APageMayBeEmpty) {
  PageWriter writer;
  EXPECT_EQ(Parse(writer.Take()).items_size(), 0);
}

// Sizes around those of the pieces of memory that a page consists of.
TEST(PageWriterTest, ItemsOfAnySizeFollowOneAnother) {
  PageWriter writer;
  for (int page_number = 0; page_number < 2; ++page_number) {
    std::vector<std::string> values;
    for (size_t size = 1; size < 100'000; size = size * 3 / 2 + 1) {
      values.emplace_back(size, static_cast<char>('a' + size % 26));
    }
    for (const std::string& value : values) {
      writer.Add({.key = value.substr(0, 9), .value = value, .version = value.size()}, false);
      EXPECT_EQ(writer.last_key(), value.substr(0, 9));
    }
    const std::string continuation(30'000, 'c');
    writer.SetContinuation(continuation);
    const v1::ScanResponse page = Parse(writer.Take());
    ASSERT_EQ(static_cast<size_t>(page.items_size()), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(page.items(static_cast<int>(i)).value(), values[i]);
    }
    EXPECT_EQ(page.continuation(), continuation);
    EXPECT_EQ(writer.items(), 0);
  }
}

}  // namespace
}  // namespace lodgekv::server
