// The executable: flags, exit codes, signals, a pool across restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "server/config/config.h"
#include "server/testing/daemon_process.h"

namespace lodgekv::server::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(LodgekvdTest, PrintsHelpVersionAndConfiguration) {
  EXPECT_THAT(Run({"--version"}), HasSubstr("0 | lodgekvd "));
  EXPECT_THAT(Run({"--help"}), AllOf(HasSubstr("0 | "), HasSubstr("--pool-size"),
                                     HasSubstr("Engines of this build"), HasSubstr("dram")));
  EXPECT_EQ(Run({"--print-config"}), "0 | " + RenderConfig(DefaultConfig()) + " | ");
  EXPECT_THAT(Run({"--print-config", "--threads", "7", "--inline-pairs"}),
              AllOf(HasSubstr("\nthreads: 7\n"), HasSubstr("\ninline_pairs: true\n")));
  EXPECT_THAT(Run({"--print-config", "--engine-option", "a=1", "--engine-option", "b=2"},
                  {"LODGEKV_THREADS=5"}),
              AllOf(HasSubstr("engine_options: {a: \"1\", b: \"2\"}"), HasSubstr("threads: 5")));
}

TEST_F(LodgekvdTest, ChecksAConfigurationWithoutTouchingThePool) {
  const std::string pool = directory_ / "pool";
  EXPECT_EQ(Run({"--check-config", "--pool", pool}), "0 | the configuration is valid\n | ");
  EXPECT_FALSE(std::filesystem::exists(pool));
}

TEST_F(LodgekvdTest, AnInvalidConfigurationIsOneLineAndExitCode2) {
  const auto expect_line = [&](const std::vector<std::string>& arguments, const char* text) {
    const std::string result = Run(arguments);
    EXPECT_THAT(result, AllOf(HasSubstr("2 |  | lodgekvd: "), HasSubstr(text)));
    EXPECT_EQ(std::count(result.begin(), result.end(), '\n'), 1) << result;
  };
  expect_line({"--engine", "btree"}, "unknown engine 'btree'; this build has: ");
  expect_line({"--engine", "dram", "--no-such-flag"}, "--no-such-flag");
  expect_line({"--pool-size", "1GB"}, "--pool-size: pool_size is '1GB'");
  expect_line({"--config", directory_ / "none.yaml"}, "none.yaml");
  expect_line({"--engine", "dram", "--listen", "0.0.0.0:0"}, "allow_plaintext");
  expect_line({}, "set pool (--pool)");
  std::ofstream(directory_ / "bad.yaml") << "engin: dram\n";
  expect_line({"--config", directory_ / "bad.yaml"}, "did you mean 'engine'?");
}

TEST_F(LodgekvdTest, APortInUseIsNamedWithExitCode1) {
  TestDaemon other;
  const std::string address = other.daemon().data_address();
  const std::string result = Run({"--engine", "dram", "--listen", address, "--admin-listen",
                                  "127.0.0.1:0", "--metrics-listen", "off"});
  EXPECT_THAT(result, AllOf(HasSubstr("1 |  | "), HasSubstr("cannot listen on " + address)));
  EXPECT_EQ(std::count(result.begin(), result.end(), '\n'), 1) << result;
}

TEST_F(LodgekvdTest, ASignalCausesACleanShutdown) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Process process(directory_, Serving({"--engine", "dram"}));
    const std::string address = process.AwaitAddress("serving", "data");
    ASSERT_NE(address, "") << process.err();
    EXPECT_TRUE(Put(address, "k", "v").ok());
    process.Signal(signal);
    EXPECT_EQ(process.Wait(), 0);
    EXPECT_THAT(process.err(), AllOf(HasSubstr("draining"), HasSubstr("pool closed cleanly")));
  }
}

TEST_F(LodgekvdTest, SighupReloadsWhatIsSafeAndNamesTheRest) {
  const std::string file = directory_ / "lodgekv.yaml";
  std::ofstream(file) << "engine: dram\n";
  Process process(directory_, Serving({"--config", file}));
  const std::string address = process.AwaitAddress("serving", "data");
  ASSERT_NE(address, "") << process.err();

  std::ofstream(file) << "engine: dram\nlog_level: loud\nscan_page_items: 7\n";
  process.Signal(SIGHUP);
  ASSERT_TRUE(process.AwaitLog("reload refused")) << process.err();
  EXPECT_THAT(process.err(), AllOf(HasSubstr("lodgekv.yaml:2"), HasSubstr("log_level is 'loud'")));

  // The new level is above info: the line is written all the same.
  std::ofstream(file) << "engine: dram\nlog_level: error\nthreads: 9\n";
  process.Signal(SIGHUP);
  ASSERT_TRUE(process.AwaitLog("need a restart")) << process.err();
  EXPECT_THAT(process.err(), AllOf(HasSubstr("changed=\"log_level: info -> error\""),
                                   HasSubstr("fields=\"threads: 0 -> 9\"")));

  std::ofstream(file) << "engine: dram\nlog_level: debug\n";
  process.Signal(SIGHUP);
  ASSERT_TRUE(process.AwaitLog("changed=\"log_level: error -> debug\"")) << process.err();
  EXPECT_TRUE(Put(address, "k", "v").ok());
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(process.err(), HasSubstr("pool closed cleanly"));
}

TEST_F(LodgekvdTest, SighupWithoutAFileIsHarmless) {
  Process process(directory_, Serving({"--engine", "dram"}));
  const std::string address = process.AwaitAddress("serving", "data");
  ASSERT_NE(address, "") << process.err();
  process.Signal(SIGHUP);
  ASSERT_TRUE(process.AwaitLog("changed=nothing")) << process.err();
  EXPECT_TRUE(Put(address, "k", "v").ok());
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
}

// By default the signal would end the process.
TEST_F(LodgekvdTest, SighupDuringTheDrainIsHarmless) {
  Process process(directory_, Serving({"--engine", "dram", "--drain-delay", "300ms"}));
  ASSERT_NE(process.AwaitAddress("serving", "data"), "") << process.err();
  process.Signal(SIGTERM);
  ASSERT_TRUE(process.AwaitLog("draining")) << process.err();
  process.Signal(SIGHUP);
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(process.err(), HasSubstr("pool closed cleanly"));
}

TEST_F(LodgekvdTest, LogsJsonWhenAsked) {
  Process process(directory_, Serving({"--engine", "dram", "--log-format", "json"}));
  for (int i = 0; i < 1'000 && process.err().find("\"serving\"") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  std::istringstream lines(process.err());
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    const auto parsed = nlohmann::json::parse(line);
    EXPECT_TRUE(parsed.contains("time") && parsed.contains("level") && parsed.contains("message"));
    ++count;
  }
  EXPECT_GE(count, 5);
}

TEST_F(LodgekvdTest, APoolSurvivesACleanShutdownAndAKill) {
  for (int round = 0; round < 3; ++round) {
    Process process(directory_, OnPool());
    const std::string address = process.AwaitAddress("serving", "data");
    ASSERT_NE(address, "") << process.err();
    for (int earlier = 0; earlier < round; ++earlier) {
      EXPECT_EQ(Get(address, "round" + std::to_string(earlier)), "value" + std::to_string(earlier));
    }
    const std::string number = std::to_string(round);
    EXPECT_TRUE(Put(address, "round" + number, "value" + number).ok());
    process.Signal(round == 0 ? SIGTERM : SIGKILL);
    EXPECT_EQ(process.Wait(), round == 0 ? 0 : 128 + SIGKILL);
  }
}

TEST_F(LodgekvdTest, APoolThatCannotBeOpenedIsExitCode1) {
  {
    Process process(directory_, OnPool());
    ASSERT_NE(process.AwaitAddress("serving", "data"), "") << process.err();
    std::filesystem::create_directory(directory_ / "second");
    Process second(directory_ / "second", OnPool());
    EXPECT_EQ(second.Wait(), 1);
    EXPECT_THAT(second.err(), HasSubstr(directory_ / "pool"));
    process.Signal(SIGTERM);
    EXPECT_EQ(process.Wait(), 0);
  }
  auto arguments = OnPool();
  arguments.insert(arguments.end(), {"--key-format", "fixed64"});
  EXPECT_THAT(Run(arguments), AllOf(HasSubstr("1 |  | "), HasSubstr("fixed64")));
  EXPECT_THAT(Run(Serving({"--pool", directory_ / "none" / "pool"})),
              AllOf(HasSubstr("1 |  | "), HasSubstr("none")));
}

TEST_F(LodgekvdTest, AJournalPathThatIsNotUsedIsAWarning) {
  auto arguments = OnPool();
  arguments.insert(arguments.end(), {"--journal-path", directory_ / "journal"});
  Process process(directory_, arguments);
  ASSERT_NE(process.AwaitAddress("serving", "data"), "") << process.err();
  EXPECT_THAT(process.err(), AllOf(HasSubstr("warning  journal_path is not used"),
                                   HasSubstr("medium_class=volatile")));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "journal"));
}

TEST_F(LodgekvdTest, AVolatileMediumMustBeAllowed) {
  EXPECT_THAT(Run(Serving({"--pool", directory_ / "pool", "--pool-size", "64MiB"})),
              AllOf(HasSubstr("1 |  | "), HasSubstr("allow_volatile_medium")));
}

}  // namespace
}  // namespace lodgekv::server::testing
