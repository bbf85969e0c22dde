// Scan over a real connection. The contents of pages are tested in scan_pager_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Keys(const std::vector<v1::ScanResponse>& pages) {
  std::vector<std::string> keys;
  for (const v1::ScanResponse& page : pages) {
    for (const v1::ScanItem& item : page.items()) keys.push_back(item.key());
  }
  return keys;
}

class KvScanTest : public ::testing::Test {
 protected:
  void PutAll(std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      ASSERT_TRUE(daemon_.Put(key, std::string("value of ") + key).ok());
    }
  }

  std::vector<std::string> ScanKeys(const v1::ScanRequest& request) {
    std::vector<v1::ScanResponse> pages;
    const grpc::Status status = daemon_.Scan(request, &pages);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Keys(pages);
  }

  TestDaemon daemon_;
};

TEST_F(KvScanTest, ServesRangePrefixReverseAndLimit) {
  PutAll({"app", "apple", "apricot", "banana", "cherry"});
  v1::ScanRequest request;
  EXPECT_THAT(ScanKeys(request), ElementsAre("app", "apple", "apricot", "banana", "cherry"));
  request.set_start("apple");
  request.set_end("cherry");
  EXPECT_THAT(ScanKeys(request), ElementsAre("apple", "apricot", "banana"));
  request.set_reverse(true);
  EXPECT_THAT(ScanKeys(request), ElementsAre("banana", "apricot", "apple"));
  request.set_limit(2);
  EXPECT_THAT(ScanKeys(request), ElementsAre("banana", "apricot"));
  v1::ScanRequest prefix;
  prefix.set_prefix("app");
  EXPECT_THAT(ScanKeys(prefix), ElementsAre("app", "apple"));
}

TEST_F(KvScanTest, ItemsCarryEverythingAGetWould) {
  v1::PutRequest put = MakePut("k", "value");
  put.mutable_ttl()->set_seconds(5);
  v1::PutResponse written;
  ASSERT_TRUE(daemon_.Put(put, &written).ok());
  std::vector<v1::ScanResponse> pages;
  ASSERT_TRUE(daemon_.Scan({}, &pages).ok());
  ASSERT_EQ(pages.at(0).items_size(), 1);
  const v1::ScanItem& item = pages[0].items(0);
  EXPECT_EQ(item.value(), "value");
  EXPECT_EQ(item.version(), written.version());
  EXPECT_EQ(item.expire_time().seconds(),
            static_cast<int64_t>(daemon_.clock().NowUnixMs() / 1000 + 5));
  v1::ScanRequest keys_only;
  keys_only.set_keys_only(true);
  pages.clear();
  ASSERT_TRUE(daemon_.Scan(keys_only, &pages).ok());
  EXPECT_EQ(pages.at(0).items(0).value(), "");
  daemon_.clock().Advance(5'000);
  EXPECT_THAT(ScanKeys({}), ElementsAre());
}

TEST_F(KvScanTest, StreamsPagesAndContinuesFromAContinuation) {
  for (int i = 0; i < 2'500; ++i) {
    ASSERT_TRUE(daemon_.Put("key" + std::to_string(100'000 + i), "v").ok());
  }
  std::vector<v1::ScanResponse> pages;
  ASSERT_TRUE(daemon_.Scan({}, &pages).ok());
  ASSERT_EQ(pages.size(), 3);
  EXPECT_EQ(pages[0].items_size(), 1'000);
  EXPECT_EQ(pages[2].items_size(), 500);
  EXPECT_EQ(pages[2].continuation(), "");
  v1::ScanRequest rest;
  rest.set_continuation(pages[0].continuation());
  const std::vector<std::string> keys = ScanKeys(rest);
  EXPECT_EQ(keys.size(), 1'500);
  EXPECT_EQ(keys.front(), "key101000");
}

// What is sent at a time is short, so that single calls need not wait long behind it.
TEST_F(KvScanTest, PagesOfLongValuesHaveFewItems) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(daemon_.Put("key" + std::to_string(100 + i), std::string(1'018, 'v')).ok());
  }
  std::vector<v1::ScanResponse> pages;
  ASSERT_TRUE(daemon_.Scan({}, &pages).ok());
  ASSERT_EQ(Keys(pages).size(), 200);
  EXPECT_EQ(pages.size(), 4);
  EXPECT_EQ(pages[0].items_size(), 64);  // of 1,024 bytes
}

TEST_F(KvScanTest, HoldsOnePageForAClientThatDoesNotRead) {
  const std::string value(kMiB, 'v');
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(daemon_.Put("key" + std::to_string(100 + i), value).ok());
  }
  grpc::ClientContext context;
  SetDeadline(context);
  const auto reader = daemon_.kv().Scan(&context, v1::ScanRequest());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(daemon_.daemon().state().admission().operations(), 1);
  EXPECT_LT(daemon_.daemon().state().admission().bytes(), 3 * kMiB);
  v1::ScanResponse page;
  int items = 0;
  while (reader->Read(&page)) items += page.items_size();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(items, 40);
}

TEST_F(KvScanTest, ADisconnectedClientLeavesNothingInFlight) {
  const std::string value(kMiB, 'v');
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(daemon_.Put("key" + std::to_string(100 + i), value).ok());
  }
  {
    grpc::ClientContext context;
    const auto reader = daemon_.kv().Scan(&context, v1::ScanRequest());
    v1::ScanResponse page;
    ASSERT_TRUE(reader->Read(&page));
    context.TryCancel();
    while (reader->Read(&page)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  for (int i = 0; i < 500 && daemon_.daemon().state().admission().operations() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(daemon_.daemon().state().admission().operations(), 0);
  EXPECT_EQ(daemon_.daemon().state().admission().bytes(), 0);
}

TEST_F(KvScanTest, RefusesABadContinuation) {
  v1::ScanRequest request;
  request.set_start("m");
  request.set_continuation("a");
  std::vector<v1::ScanResponse> pages;
  const grpc::Status status = daemon_.Scan(request, &pages);
  EXPECT_EQ(CodeAndReason(status), "INVALID_ARGUMENT BAD_CONTINUATION");
  EXPECT_TRUE(pages.empty());
}

TEST(KvScanFaultsTest, ADamagedRecordEndsTheScan) {
  auto faults = std::make_shared<Faults>();
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  faults->reads = Outcome::kDataLoss;
  std::vector<v1::ScanResponse> pages;
  EXPECT_EQ(CodeAndReason(daemon.Scan({}, &pages)), "DATA_LOSS DAMAGED_RECORD");
}

}  // namespace
}  // namespace lodgekv::server::testing
