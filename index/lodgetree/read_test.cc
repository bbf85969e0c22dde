// Reads of several keys at once: the same answers as one by one.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

class ReadTest : public ::testing::TestWithParam<KeyFormat> {
 protected:
  static bool fixed() { return GetParam() == KeyFormat::kFixed64; }
  static std::string Key(uint64_t n) { return fixed() ? Text(n) : "key number " + Text(n); }

  Outcome ReadAll(const std::vector<std::string>& texts, std::vector<ReadResult>* results) {
    const std::vector<std::string_view> keys(texts.begin(), texts.end());
    results->resize(keys.size());
    return tree_.engine().Read(keys, *results, {.now_unix_ms = 1'000});
  }
  void ExpectSameOneByOne(const std::vector<std::string>& texts) {
    std::vector<ReadResult> together;
    (void)ReadAll(texts, &together);
    for (size_t i = 0; i < texts.size(); ++i) {
      std::vector<ReadResult> alone;
      EXPECT_EQ(ReadAll({texts[i]}, &alone), together[i].outcome) << i;
      EXPECT_EQ(alone[0].found, together[i].found) << i;
      EXPECT_EQ(alone[0].version, together[i].version) << i;
      EXPECT_EQ(alone[0].expiry_unix_ms, together[i].expiry_unix_ms) << i;
      if (!together[i].found) continue;
      EXPECT_EQ(alone[0].value, together[i].value) << i;
    }
  }

  TestTree tree_{GetParam()};
};

TEST_P(ReadTest, TogetherAsOneByOne) {
  for (uint64_t n = 0; n < 3'000; ++n) {
    const std::string key = Key(n * 1'009 % 3'000 * 2);
    const uint64_t expiry = fixed() || n % 5 != 0 ? 0 : 995 + n % 10;
    ASSERT_EQ(tree_.Write({{.key = key, .value = Text(n), .expiry_unix_ms = expiry}}),
              Outcome::kOk);
  }
  for (uint64_t n = 0; n < 3'000; n += 7) ASSERT_EQ(tree_.Delete(Key(n * 2)), Outcome::kOk);
  for (const size_t count : {2, 15, 16, 17, 100}) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < count; ++i) texts.push_back(Key(i * 7'919 % 6'000));
    texts.push_back(texts.front());
    ExpectSameOneByOne(texts);
  }
}

TEST_P(ReadTest, AKeyThatIsNoneLeavesTheOthers) {
  ASSERT_EQ(tree_.Put(Key(1), Text(1)), Outcome::kOk);
  std::vector<ReadResult> results;
  EXPECT_EQ(ReadAll({Key(1), "", Key(2), std::string(70'000, 'k'), Key(1)}, &results),
            Outcome::kInvalidArgument);
  const std::vector<bool> found = {true, false, false, false, true};
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(results[i].found, found[i]) << i;
    const bool is_key = i % 2 == 0;
    EXPECT_EQ(results[i].outcome, is_key ? Outcome::kOk : Outcome::kInvalidArgument) << i;
  }
}

TEST_P(ReadTest, StableKeysAreFoundWhileTheTreeGrows) {
  constexpr uint64_t kStable = 64;
  std::vector<std::string> stable;
  for (uint64_t n = 0; n < kStable; ++n) {
    stable.push_back(Key(n << 32));
    ASSERT_EQ(tree_.Put(stable.back(), Text(n)), Outcome::kOk);
  }
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint64_t n = 1; n <= 20'000; ++n) {
      EXPECT_EQ(tree_.Put(Key((n % kStable) << 32 | n), Text(n)), Outcome::kOk);
    }
    done = true;
  });
  std::vector<ReadResult> results;
  do {
    EXPECT_EQ(ReadAll(stable, &results), Outcome::kOk);
    for (uint64_t n = 0; n < kStable; ++n) {
      ASSERT_TRUE(results[n].found) << n;
      ASSERT_EQ(results[n].value, Text(n));
    }
  } while (!done);
  writer.join();
}

INSTANTIATE_TEST_SUITE_P(Formats, ReadTest,
                         ::testing::Values(KeyFormat::kFixed64, KeyFormat::kBytes),
                         [](const auto& parameters) {
                           return parameters.param == KeyFormat::kFixed64 ? "Fixed64" : "Bytes";
                         });

}  // namespace
}  // namespace lodgekv::lodgetree
