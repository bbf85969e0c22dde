// A planted mistake in a long run must be reduced to a few operations, and the printed command must
// repeat it.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/crash/explorer/plan.h"
#include "tests/crash/explorer/replay.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

// 300 puts before the first image, in the case with small nodes.
ExplorerOptions LongRun(Fault fault) {
  ExplorerOptions options;
  for (const EngineCase& engine_case : PersistentCases()) {
    if (engine_case.engine->name != "lodgetree") continue;  // these tests use its faults
    if (engine_case.fixed64() && engine_case.small_nodes) options.engine_case = engine_case;
  }
  options.mixture = {.name = "puts and deletes", .family = "dense", .keys = 40};
  options.memory_bytes = uint64_t{512} << 10;
  options.warm_up = 300;
  options.max_depth = 0;  // no nested runs from images of the creation
  options.fault = fault;
  return options;
}

class ShrinkTest : public ::testing::TestWithParam<CrashModel> {};

TEST_P(ShrinkTest, LeavesAFewOperationsThatFailByThemselves) {
  ExplorerOptions options = LongRun({Fault::Kind::kForgetFlushes, "lodgetree.flush.1"});
  options.model = GetParam();
  const ExplorerResult result = Explorer(options).Run();
  ASSERT_TRUE(result.failure.has_value());
  ASSERT_GE(StepsOf(result.script), 300U);
  const Script shortest = ParseScript(result.shortest);
  EXPECT_LE(StepsOf(shortest), 10U) << *result.failure;
  const auto again = Replay(options).Run(shortest, Replay::Way::kExactly, 0);
  ASSERT_TRUE(again.has_value()) << *result.failure;
  EXPECT_TRUE(absl::StrContains(*result.failure, "what fails: " + again->what)) << *result.failure;
  // Either of them is enough: the pairs in the leaf, or the entry of the put that flushed.
  EXPECT_TRUE(absl::StrContains(again->lines, "leaf at ") ||
              absl::StrContains(again->lines, "log at "))
      << again->lines;
  EXPECT_TRUE(absl::StrContains(again->lines, "LOST")) << again->lines;

  options.fault = {};
  EXPECT_FALSE(Replay(options).Run(shortest, Replay::Way::kExactly, 0).has_value());
}

INSTANTIATE_TEST_SUITE_P(Models, ShrinkTest,
                         ::testing::Values(CrashModel::kLinePrefix, CrashModel::kTornWords),
                         [](const auto& param) {
                           return std::string(param.param == CrashModel::kLinePrefix ? "prefixes"
                                                                                     : "torn");
                         });

// A failure after two crashes and with several threads is repeated as exactly.
TEST(ScriptTest, RepeatsEveryFailureOfARun) {
  unsigned failures = 0;
  for (const EngineCase& engine_case : PersistentCases()) {
    if (!engine_case.small_nodes) continue;
    for (ExplorerOptions options : PlanRuns(engine_case, CrashModel::kLinePrefix, {.runs = 1})) {
      options.shrink = false;
      options.max_images = 20'000 / kSanitizerSlowdown;
      options.fault = {Fault::Kind::kAsk, "node.log_replay.no_watermark"};
      const ExplorerResult result = Explorer(options).Run();
      if (!result.failure) continue;
      ++failures;
      const auto again = Replay(options).Run(result.script, Replay::Way::kExactly, 0);
      ASSERT_TRUE(again.has_value()) << *result.failure << "\n" << ScriptText(result.script);
      EXPECT_TRUE(absl::StrContains(*result.failure, again->what)) << *result.failure;
    }
  }
  EXPECT_GT(failures, kSanitizerSlowdown > 1 ? 0U : 5U);
}

TEST(ScriptTest, IsTheSameReadBack) {
  ExplorerOptions options = LongRun({});
  options.warm_up = 5;
  options.max_images = 40;
  Workload workload(options.engine_case, {.name = "any", .family = "dense", .batches = 50});
  Random random("script");
  Script script(2);
  for (ScriptRun& run : script) {
    run.worker = 1;
    run.crash = {true, 3, {{7, {1, 0, 2}}, {9, {65535}}}};
    for (uint64_t i = 0; i < 20; ++i) {
      run.steps.push_back({workload.Next(random, [](auto) { return uint64_t{3}; }), i % 3});
    }
  }
  script.back().crash = {};
  EXPECT_EQ(ScriptText(ParseScript(ScriptText(script))), ScriptText(script));
  EXPECT_THROW(ParseScript("0@"), std::invalid_argument);
  EXPECT_THROW(ParseScript("0@1_2;x"), std::invalid_argument);
}

std::string OutputOf(const std::string& command) {
  std::string output;
  FILE* pipe = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), n);
  }
  pclose(pipe);
  return output;
}

std::string Between(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find(from);
  if (begin == std::string::npos) return "";
  const size_t at = begin + from.size();
  return text.substr(at, text.find(to, at) - at);
}

// The printed command, run as a user runs it.
TEST(RepeatTest, TheCommandThatIsPrintedShowsTheFailureAgain) {
  const std::string program = LODGEKV_EXPLORER_TEST;
  const std::string first = OutputOf(absl::StrCat(
      "LODGEKV_CRASH_RUN=tides/0 LODGEKV_CRASH_CANARY='leaf split: new leaf not flushed' ", program,
      " --gtest_filter='*lodgetree_bytes_small_prefixes'"));
  const std::string what = Between(first, "what fails: ", "\n");
  std::string command = Between(first, "the shortest sequence alone: ", "\n");
  ASSERT_FALSE(what.empty()) << first;
  const size_t name = command.find("crash_explorer_test");
  ASSERT_NE(name, std::string::npos) << first;
  command.replace(name, std::string("crash_explorer_test").size(), program);
  const std::string again = OutputOf(command);
  EXPECT_TRUE(absl::StrContains(again, what)) << command << "\n" << again;
  EXPECT_TRUE(absl::StrContains(again, " 1 images ")) << again;
}

}  // namespace
}  // namespace lodgekv::test
