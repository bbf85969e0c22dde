// The metrics of the Prometheus endpoint after known work.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/version.h"
#include "server/rpc/rpc_recorder.h"
#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// name{labels} value
bool IsSample(const std::string& line) {
  const size_t space = line.rfind(' ');
  if (space == std::string::npos || space + 1 == line.size()) return false;
  char* end = nullptr;
  std::strtod(line.c_str() + space, &end);
  if (*end != '\0') return false;
  const size_t name = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_");
  return name > 0 && (name == space || (line[name] == '{' && line[space - 1] == '}'));
}

// Connected, without sending anything.
class IdleConnection {
 public:
  explicit IdleConnection(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const size_t colon = address.rfind(':');
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)), 0);
  }
  IdleConnection(const IdleConnection&) = delete;
  IdleConnection& operator=(const IdleConnection&) = delete;
  ~IdleConnection() { close(fd_); }

 private:
  int fd_;
};

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() : daemon_(MakeConfig(), HooksOf(std::make_shared<Faults>())) {}
  explicit MetricsTest(std::shared_ptr<Faults> faults)
      : daemon_(MakeConfig(), HooksOf(std::move(faults))) {}

  static Config MakeConfig() {
    Config config = TestConfig();
    config.metrics_listen = "127.0.0.1:0";
    return config;
  }

  std::string Scraped() { return Scrape(daemon_.daemon().metrics_address()); }

  TestDaemon daemon_;
};

TEST_F(MetricsTest, ShowsARecoveryThatContinuesWhileServing) {
  EXPECT_THAT(Scraped(), AllOf(HasSubstr("lodgekv_recovery_unfinished 0\n"),
                               HasSubstr("lodgekv_recovery_failed 0\n")));
  RecoveryState recovery{.finished = false, .phase = "settling", .done = 3, .total = 8};
  auto faults = std::make_shared<Faults>();
  faults->recovery = [&recovery] { return recovery; };
  TestDaemon daemon(MakeConfig(), HooksOf(faults));
  const std::string& address = daemon.daemon().metrics_address();
  EXPECT_THAT(Scrape(address), AllOf(HasSubstr("lodgekv_state{state=\"serving\"} 1\n"),
                                     HasSubstr("lodgekv_recovery_unfinished 1\n"),
                                     HasSubstr("lodgekv_recovery_steps_done 3\n"),
                                     HasSubstr("lodgekv_recovery_steps 8\n"),
                                     HasSubstr("lodgekv_recovery_keys 7\n")));
  recovery = {.report = RecoveryReport{.keys = 9}};
  EXPECT_THAT(Scrape(address), AllOf(HasSubstr("lodgekv_recovery_unfinished 0\n"),
                                     HasSubstr("lodgekv_recovery_keys 9\n")));
  recovery = {.error = absl::DataLossError("leaf 7")};
  EXPECT_THAT(Scrape(address), HasSubstr("lodgekv_recovery_failed 1\n"));
}

TEST_F(MetricsTest, CountsCallsByMethodAndCode) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(daemon_.Put("k" + std::to_string(i), "v").ok());
  (void)daemon_.ValueOf("k1");
  (void)daemon_.ValueOf("");
  const std::string text = Scraped();
  EXPECT_THAT(text, HasSubstr("lodgekv_rpc_latency_seconds_count{rpc=\"Put\",code=\"OK\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("lodgekv_rpc_latency_seconds_count{rpc=\"Get\",code=\"OK\"} 1\n"));
  EXPECT_THAT(
      text,
      HasSubstr("lodgekv_rpc_latency_seconds_count{rpc=\"Get\",code=\"INVALID_ARGUMENT\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lodgekv_rpc_latency_seconds_count{rpc=\"Scan\",code=\"OK\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("code=\"NOT_FOUND\"")));
  EXPECT_THAT(text, AllOf(HasSubstr("rpc=\"Put\",code=\"OK\",le=\"1e-06\"}"),
                          HasSubstr("rpc=\"Put\",code=\"OK\",le=\"1\"} 5\n"),
                          HasSubstr("rpc=\"Put\",code=\"OK\",le=\"+Inf\"} 5\n")));
  EXPECT_THAT(text, HasSubstr("lodgekv_write_group_operations_total 5\n"));
}

// A client may have its answer a moment before the call is over.
TEST_F(MetricsTest, NothingIsInFlightOnceCallsAreOver) {
  ASSERT_TRUE(daemon_.Put("k", "v").ok());
  const std::string none = "lodgekv_rpc_in_flight_operations 0\n";
  std::string text = Scraped();
  for (int i = 0; i < 500 && text.find(none) == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    text = Scraped();
  }
  EXPECT_THAT(text, HasSubstr(none));
}

TEST_F(MetricsTest, ExportsTheCountersOfAlertsFromTheStart) {
  const std::string text = Scraped();
  for (const std::string_view method : kMethodNames) {
    for (const char* code : {"OK", "UNKNOWN", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL",
                             "UNAVAILABLE", "DATA_LOSS"}) {
      EXPECT_THAT(text, HasSubstr("lodgekv_rpc_latency_seconds_count{rpc=\"" + std::string(method) +
                                  "\",code=\"" + code + "\"} 0\n"));
    }
  }
}

TEST_F(MetricsTest, CountsWritesThatTookEffectAndTheirBytes) {
  ASSERT_TRUE(daemon_.Put("key", "value").ok());
  ASSERT_FALSE(daemon_.Put(MakePut("key", "another", v1::CONDITION_IF_ABSENT)).ok());
  v1::DeleteRequest erase;
  erase.set_key("absent");
  ASSERT_TRUE(daemon_.Delete(erase).ok());
  EXPECT_THAT(Scraped(), AllOf(HasSubstr("lodgekv_write_operations_total 1\n"),
                               HasSubstr("lodgekv_write_bytes_total 8\n")));
  erase.set_key("key");
  ASSERT_TRUE(daemon_.Delete(erase).ok());
  EXPECT_THAT(Scraped(), AllOf(HasSubstr("lodgekv_write_operations_total 2\n"),
                               HasSubstr("lodgekv_write_bytes_total 11\n")));
  v1::BatchWriteRequest batch;
  for (const char* key : {"a", "b2"}) {
    v1::Operation* operation = batch.add_operations();
    operation->set_kind(v1::OPERATION_KIND_PUT);
    operation->set_key(key);
    operation->set_value("1");
  }
  ASSERT_TRUE(daemon_.BatchWrite(batch).ok());
  EXPECT_THAT(Scraped(), AllOf(HasSubstr("lodgekv_write_operations_total 4\n"),
                               HasSubstr("lodgekv_write_bytes_total 16\n")));
}

TEST_F(MetricsTest, ShowsTheProcess) {
  const std::string text = Scraped();
  EXPECT_THAT(text, AllOf(HasSubstr("\nprocess_cpu_seconds_total "),
                          HasSubstr("\nprocess_resident_memory_bytes "),
                          HasSubstr("\nprocess_open_fds "), HasSubstr("\nprocess_max_fds ")));
  EXPECT_THAT(text, Not(HasSubstr("process_resident_memory_bytes 0\n")));
  EXPECT_THAT(text, Not(HasSubstr("process_open_fds 0\n")));
}

TEST_F(MetricsTest, ShowsMediumSpaceRecoveryAndBuild) {
  const std::string text = Scraped();
  EXPECT_THAT(text, HasSubstr("lodgekv_medium_info{engine=\"dram\",medium_class=\"pmem-adr\","
                              "durability=\"medium\",key_format=\"bytes\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(std::string("lodgekv_build_info{version=\"") + kVersion + "\""));
  EXPECT_THAT(text, AllOf(HasSubstr("lodgekv_pool_total_bytes 100\n"),
                          HasSubstr("lodgekv_pool_used_bytes 60\n"),
                          HasSubstr("lodgekv_pool_free_bytes 30\n"),
                          HasSubstr("lodgekv_pool_reserved_bytes 10\n")));
  EXPECT_THAT(
      text, AllOf(HasSubstr("lodgekv_recovery_seconds 1.25\n"),
                  HasSubstr("lodgekv_recovery_clean 0\n"), HasSubstr("lodgekv_recovery_keys 7\n")));
  EXPECT_THAT(text, AllOf(HasSubstr("lodgekv_state{state=\"serving\"} 1\n"),
                          HasSubstr("lodgekv_state{state=\"recovering\"} 0\n")));
  EXPECT_THAT(text, AllOf(HasSubstr("lodgekv_lines_flushed_total{engine=\"dram\"}"),
                          HasSubstr("lodgekv_fences_total{engine=\"dram\"}"),
                          HasSubstr("lodgekv_media_writes_256b_total{engine=\"dram\"}")));
  for (const char* name : {"lines_flushed", "fences", "media_writes_256b", "stored_bytes"}) {
    EXPECT_THAT(text, HasSubstr(std::string("lodgekv_rpc_") + name + "_total{rpc=\"Put\"} 0\n"));
    EXPECT_THAT(text, HasSubstr(std::string("lodgekv_rpc_") + name + "_total{rpc=\"Scan\"} 0\n"));
  }
}

TEST_F(MetricsTest, ShowsNoJournalIfThereIsNone) {
  EXPECT_THAT(Scraped(), Not(HasSubstr("lodgekv_journal_")));
}

class JournalMetricsTest : public MetricsTest {
 protected:
  JournalMetricsTest() : MetricsTest(WithJournal()) {}

  static std::shared_ptr<Faults> WithJournal() {
    auto faults = std::make_shared<Faults>();
    faults->journal = {.size_bytes = 4096,
                       .used_bytes = 1024,
                       .syncs = 10,
                       .fences = 35,
                       .written_bytes = 40'960,
                       .checkpoints = 3,
                       .checkpoint_ns = 2'500'000'000,
                       .written_back_bytes = 12'288,
                       .lag_ns = 750'000'000,
                       .waits = 2,
                       .wait_ns = 125'000'000,
                       .pool_syncs = 1};
    return faults;
  }
};

TEST_F(JournalMetricsTest, ShowsItsUseAndTheReplay) {
  const std::string text = Scraped();
  for (const char* sample :
       {"size_bytes 4096", "used_bytes 1024", "syncs_total 10", "fences_total 35",
        "written_bytes_total 40960", "checkpoints_total 3", "checkpoint_seconds_total 2.5",
        "written_back_bytes_total 12288", "lag_seconds 0.75", "waits_total 2",
        "wait_seconds_total 0.125", "pool_syncs_total 1", "replay_seconds 1.5",
        "groups_replayed 12", "lines_replayed 345"}) {
    EXPECT_THAT(text, HasSubstr("\nlodgekv_journal_" + std::string(sample) + "\n"));
  }
}

TEST_F(MetricsTest, ShowsTheEnginesOwnCounters) {
  ASSERT_TRUE(daemon_.Put("k", "v").ok());
  EXPECT_THAT(Scraped(), HasSubstr("lodgekv_engine_puts_total{engine=\"dram\"} 1\n"));
}

TEST_F(MetricsTest, AnswersDespiteIdleConnections) {
  std::vector<std::unique_ptr<IdleConnection>> idle;
  for (int i = 0; i < 6; ++i) {
    idle.push_back(std::make_unique<IdleConnection>(daemon_.daemon().metrics_address()));
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(Scraped(), HasSubstr("lodgekv_state"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(MetricsTest, IsWellFormed) {
  ASSERT_TRUE(daemon_.Put("k", "v").ok());
  const std::string text = Scraped();
  std::istringstream lines(text.substr(text.find("\r\n\r\n") + 4));
  std::set<std::string> types;
  std::string line;
  int samples = 0;
  while (std::getline(lines, line)) {
    if (line.rfind("# TYPE ", 0) == 0) {
      EXPECT_TRUE(types.insert(line).second) << "a family occurs twice: " << line;
    } else if (line.rfind("# HELP ", 0) != 0) {
      EXPECT_TRUE(IsSample(line)) << line;
      ++samples;
    }
  }
  EXPECT_GT(samples, 100);
}

}  // namespace
}  // namespace lodgekv::server::testing
