// Which changes a reload applies, and which it leaves.
#include "server/config/reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "server/base/clock.h"
#include "server/rpc/server_state.h"
#include "server/testing/temp_folder.h"

namespace lodgekv::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReloadTest : public TempFolderTest {
 protected:
  ReloadTest() {
    sources_.yaml_path = directory_ / "lodgekv.yaml";
    Write("engine: dram\n");
    running_ = LoadConfig(sources_)->config;
  }

  void Write(std::string_view text) { std::ofstream(sources_.yaml_path) << text; }
  std::string Complaint() { return std::string(PlanReload(running_, sources_).status().message()); }

  ConfigSources sources_;
  Config running_;
};

TEST_F(ReloadTest, TheSameSourcesChangeNothing) {
  const auto reload = PlanReload(running_, sources_);
  ASSERT_TRUE(reload.ok()) << reload.status();
  EXPECT_THAT(reload->changed, IsEmpty());
  EXPECT_THAT(reload->needs_restart, IsEmpty());
  EXPECT_EQ(RenderConfig(reload->config), RenderConfig(running_));
}

TEST_F(ReloadTest, AppliesReloadableFieldsAndNamesTheOthers) {
  Write(
      "engine: dram\nlog_level: debug\nslow_request: 2s\nscan_page_items: 10\n"
      "threads: 3\nlisten: 127.0.0.1:9\ninline_pairs: true\nmax_key_size: 16\n");
  const auto reload = PlanReload(running_, sources_);
  ASSERT_TRUE(reload.ok()) << reload.status();
  EXPECT_THAT(reload->changed,
              ElementsAre("scan_page_items: 1000 -> 10", "log_level: info -> debug",
                          "slow_request: 100ms -> 2s"));
  EXPECT_THAT(reload->needs_restart, ElementsAre("inline_pairs: false -> true",
                                                 "listen: \"127.0.0.1:7411\" -> \"127.0.0.1:9\"",
                                                 "threads: 0 -> 3", "max_key_size: 4KiB -> 16B"));
  Config expected = running_;
  expected.log_level = "debug";
  expected.slow_request_ms = 2'000;
  expected.scan_page_items = 10;
  EXPECT_EQ(RenderConfig(reload->config), RenderConfig(expected));
}

TEST_F(ReloadTest, SourcesHaveThePrecedenceOfTheStart) {
  sources_.environment = {"LODGEKV_LOG_LEVEL=warning"};
  sources_.flags = {{FindConfigField("slow_request"), "5s"}};
  running_ = LoadConfig(sources_)->config;
  Write("engine: dram\nlog_level: debug\nslow_request: 1s\ndrain_grace: 3s\n");
  const auto reload = PlanReload(running_, sources_);
  ASSERT_TRUE(reload.ok()) << reload.status();
  EXPECT_THAT(reload->changed, ElementsAre("drain_grace: 10s -> 3s"));
}

TEST_F(ReloadTest, AnInvalidFieldMakesTheReloadFail) {
  Write("engine: dram\nlog_level: debug\nslow_request: soon\n");
  EXPECT_THAT(Complaint(), AllOf(HasSubstr("lodgekv.yaml:3"), HasSubstr("slow_request is 'soon'")));
  Write("engine: dram\nlog_level: debug\nengin: dram\n");
  EXPECT_THAT(Complaint(), HasSubstr("unknown field 'engin'"));
  Write("engine: dram\nlog_level: debug\nlisten: 0.0.0.0:1\n");
  EXPECT_THAT(Complaint(), HasSubstr("allow_plaintext"));
  std::filesystem::remove(sources_.yaml_path);
  EXPECT_THAT(Complaint(), HasSubstr("cannot be read"));
}

// Valid as a whole, but not the part that applies without a restart.
TEST_F(ReloadTest, AppliedFieldsMustBeValidWithTheUnchangedOnes) {
  Write("engine: dram\nmax_value_size: 64KiB\nmax_batch_size: 1MiB\nmax_inflight_size: 2MiB\n");
  EXPECT_THAT(Complaint(), AllOf(HasSubstr("not without a restart"),
                                 HasSubstr("max_inflight_size is 2MiB"), HasSubstr("4MiB")));
}

TEST_F(ReloadTest, WithoutAFileItChangesNothing) {
  sources_.yaml_path.clear();
  sources_.flags = {{FindConfigField("engine"), "dram"}};
  const auto reload = PlanReload(running_, sources_);
  ASSERT_TRUE(reload.ok()) << reload.status();
  EXPECT_THAT(reload->changed, IsEmpty());
  EXPECT_THAT(reload->needs_restart, IsEmpty());
}

// Readers and the reload share no lock; the thread sanitizer would report a data race.
TEST_F(ReloadTest, AReaderDuringAReloadSeesTheOldOrTheNewConfiguration) {
  constexpr uint64_t kReloads = 1'000;
  running_.slow_request_ms = running_.scan_page_items = 1;
  const SystemClock clock;
  ServerState state(running_, clock);
  std::thread reader([&state] {
    for (uint64_t seen = 0; seen < kReloads;) {
      const Config& config = state.config();
      EXPECT_EQ(config.slow_request_ms, config.scan_page_items);
      EXPECT_GE(config.scan_page_items, seen);
      seen = config.scan_page_items;
      EXPECT_GE(state.limits().scan_page_items, seen);
    }
  });
  for (uint64_t i = 1; i <= kReloads; ++i) {
    Config config = running_;
    config.slow_request_ms = config.scan_page_items = i;
    state.Adopt(config);
  }
  reader.join();
}

}  // namespace
}  // namespace lodgekv::server
