#include "server/rpc/scan_pager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "index/registry.h"
#include "server/testing/parse_page.h"
#include "server/testing/test_daemon.h"

namespace lodgekv::server {
namespace {

using ::testing::ElementsAre;

TEST(PrefixEndTest, IsTheFirstKeyAfterThePrefix) {
  EXPECT_EQ(PrefixEnd("a"), "b");
  EXPECT_EQ(PrefixEnd("ab\xff"), "ac");
  EXPECT_EQ(PrefixEnd("a\xff\xff"), "b");
  EXPECT_EQ(PrefixEnd("\xff\xff"), "");
  EXPECT_EQ(PrefixEnd(""), "");
  EXPECT_EQ(PrefixEnd(std::string("a\0", 2)), std::string("a\x01", 2));
  EXPECT_EQ(PrefixEnd("\x7f"), "\x80");
}

class ScanPagerTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(KeyFormat::kBytes); }

  void Open(KeyFormat format) {
    pool_.key_format = format;
    EngineContext context;
    context.key_format = format;
    auto created = (*FindEngine("dram"))->create(context);
    ASSERT_TRUE(created.ok()) << created.status();
    engine_ = *std::move(created);
    model_.clear();
  }

  void Put(const std::string& key, const std::string& value) {
    const WriteOp op{.key = key, .value = value};
    WriteResult result;
    ASSERT_EQ(engine_->Write({&op, 1}, {&result, 1}, {}), Outcome::kOk);
    model_[key] = value;
  }

  std::optional<grpc::Status> Start(ScanPager& pager, const v1::ScanRequest& request) {
    return pager.Start(request, {.limits = limits_, .pool = pool_, .now_unix_ms = 0});
  }

  // Each page as its keys joined by spaces.
  std::vector<std::string> Pages(const v1::ScanRequest& request) {
    ScanPager pager;
    const auto error = Start(pager, request);
    if (error) return {error->error_message()};
    std::vector<std::string> pages;
    while (!pager.done()) {
      const v1::ScanResponse page = testing::NextPage(pager, *engine_).value();
      std::string keys;
      for (const v1::ScanItem& item : page.items()) keys += (keys.empty() ? "" : " ") + item.key();
      pages.push_back(keys);
      last_continuation_ = page.continuation();
    }
    return pages;
  }

  // What a scan must return according to kv.proto.
  std::vector<std::string> Expected(const v1::ScanRequest& request) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : model_) {
      if (key < request.start()) continue;
      if (!request.end().empty() && key >= request.end()) continue;
      if (key.substr(0, request.prefix().size()) != request.prefix()) continue;
      keys.push_back(key);
    }
    if (request.reverse()) std::reverse(keys.begin(), keys.end());
    if (request.limit() != 0 && keys.size() > request.limit()) keys.resize(request.limit());
    return keys;
  }

  Limits limits_;
  PoolFeatures pool_;
  std::unique_ptr<Engine> engine_;
  std::map<std::string, std::string> model_;
  std::string last_continuation_;
};

TEST_F(ScanPagerTest, PagesByItems) {
  for (const char* key : {"a", "b", "c", "d", "e"}) Put(key, "v");
  v1::ScanRequest request;
  request.set_page_items(2);
  EXPECT_THAT(Pages(request), ElementsAre("a b", "c d", "e"));
  EXPECT_EQ(last_continuation_, "");
  request.set_reverse(true);
  EXPECT_THAT(Pages(request), ElementsAre("e d", "c b", "a"));
  request.set_page_items(5);
  EXPECT_THAT(Pages(request), ElementsAre("e d c b a"));
  request.set_page_items(0);
  limits_.scan_page_items = 3;
  EXPECT_THAT(Pages(request), ElementsAre("e d c", "b a"));
  request.set_page_items(4);
  EXPECT_THAT(Pages(request), ElementsAre("e d c", "b a"));
}

TEST_F(ScanPagerTest, PagesByBytesButAlwaysOneItem) {
  Put("a", std::string(9, 'x'));
  Put("b", std::string(9, 'x'));
  Put("c", std::string(50, 'x'));
  Put("d", "");
  v1::ScanRequest request;
  request.set_page_bytes(20);
  EXPECT_THAT(Pages(request), ElementsAre("a b", "c", "d"));
  request.set_page_bytes(19);
  EXPECT_THAT(Pages(request), ElementsAre("a", "b", "c", "d"));
  request.set_keys_only(true);
  EXPECT_THAT(Pages(request), ElementsAre("a b c d"));
}

TEST_F(ScanPagerTest, AnEmptyRangeIsOneEmptyPage) {
  v1::ScanRequest request;
  EXPECT_THAT(Pages(request), ElementsAre(""));
  Put("m", "v");
  request.set_start("x");
  request.set_end("a");
  EXPECT_THAT(Pages(request), ElementsAre(""));
  request.set_reverse(true);
  EXPECT_THAT(Pages(request), ElementsAre(""));
}

TEST_F(ScanPagerTest, ALimitLeavesAContinuation) {
  for (const char* key : {"a", "b", "c", "d"}) Put(key, "v");
  v1::ScanRequest request;
  request.set_limit(3);
  request.set_page_items(2);
  EXPECT_THAT(Pages(request), ElementsAre("a b", "c"));
  EXPECT_EQ(last_continuation_, "c");
  request.set_continuation("c");
  EXPECT_THAT(Pages(request), ElementsAre("d"));
  EXPECT_EQ(last_continuation_, "");
  request.clear_continuation();
  request.set_limit(4);
  EXPECT_THAT(Pages(request), ElementsAre("a b", "c d"));
  EXPECT_EQ(last_continuation_, "");
}

TEST_F(ScanPagerTest, ContinuesAfterADeletedKey) {
  for (const char* key : {"a", "c", "d"}) Put(key, "v");
  v1::ScanRequest request;
  request.set_continuation("b");
  EXPECT_THAT(Pages(request), ElementsAre("c d"));
  request.set_reverse(true);
  EXPECT_THAT(Pages(request), ElementsAre("a"));
}

TEST_F(ScanPagerTest, AContinuationOfAnotherRangeIsRefused) {
  ScanPager pager;
  v1::ScanRequest request;
  request.set_start("m");
  request.set_end("p");
  for (const char* outside : {"a", "p", "z"}) {
    request.set_continuation(outside);
    const auto error = Start(pager, request);
    ASSERT_TRUE(error) << outside;
    EXPECT_EQ(testing::CodeAndReason(*error), "INVALID_ARGUMENT BAD_CONTINUATION");
  }
}

TEST_F(ScanPagerTest, ReturnsWhatTheProtocolSaysOnRandomRanges) {
  std::mt19937 random(20'240'601);
  const auto word = [&](size_t longest) {
    std::string text;
    for (size_t i = random() % (longest + 1); i > 0; --i) {
      text += "ab\xff\0"[random() % 4];
    }
    return text;
  };
  for (int i = 0; i < 200; ++i) {
    const std::string key = word(5);
    if (!key.empty()) Put(key, word(8));
  }
  for (int i = 0; i < 3'000; ++i) {
    v1::ScanRequest request;
    request.set_start(word(3));
    request.set_end(word(3));
    request.set_prefix(word(2));
    request.set_reverse(random() % 2 == 0);
    request.set_limit(random() % 20);
    request.set_page_items(random() % 7);
    request.set_page_bytes(static_cast<uint32_t>(random() % 40));
    std::vector<std::string> keys;
    ScanPager pager;
    ASSERT_FALSE(Start(pager, request));
    while (!pager.done()) {
      const uint64_t most_bytes = 1 + random() % 60;
      const v1::ScanResponse page = testing::NextPage(pager, *engine_, most_bytes).value();
      uint64_t bytes = 0;
      for (const v1::ScanItem& item : page.items()) {
        keys.push_back(item.key());
        EXPECT_EQ(item.value(), model_.at(item.key()));
        bytes += item.key().size() + item.value().size();
      }
      EXPECT_EQ(bytes, pager.page_bytes());
      if (page.items_size() <= 1) continue;
      EXPECT_LE(bytes, most_bytes);
      if (request.page_bytes() != 0) {
        EXPECT_LE(bytes, request.page_bytes());
      }
    }
    ASSERT_EQ(keys, Expected(request)) << request.ShortDebugString();
  }
}

TEST_F(ScanPagerTest, Fixed64TakesShorterBounds) {
  Open(KeyFormat::kFixed64);
  for (const char* key : {"aaaaaaaa", "abababab", "abacabac", "bbbbbbbb"}) Put(key, "12345678");
  v1::ScanRequest request;
  request.set_prefix("ab");
  EXPECT_THAT(Pages(request), ElementsAre("abababab abacabac"));
  request.set_reverse(true);
  request.set_page_items(1);
  EXPECT_THAT(Pages(request), ElementsAre("abacabac", "abababab"));
  request.clear_prefix();
  request.set_start("abac");
  EXPECT_THAT(Pages(request), ElementsAre("bbbbbbbb", "abacabac"));
  request.set_start("123456789");
  EXPECT_THAT(Pages(request), ElementsAre(::testing::HasSubstr("start: 9 bytes")));
}

}  // namespace
}  // namespace lodgekv::server
