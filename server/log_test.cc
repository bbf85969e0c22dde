#include "server/log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lodgekv::server {
namespace {

constexpr std::string_view kTime = "2024-02-29T12:00:00.000Z";

TEST(Log, TextQuotesWhatNeedsIt) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, kTime, LogLevel::kWarning, "slow request",
                          {{"rpc", "Get"}, {"note", "two words"}, {"empty", ""}, {"n", 12}}),
            "2024-02-29T12:00:00.000Z warning  slow request rpc=Get note=\"two words\" empty=\"\" "
            "n=12");
}

TEST(Log, ALineStaysOneLine) {
  const std::string line =
      FormatLogLine(LogFormat::kText, kTime, LogLevel::kInfo, "x", {{"path", "a\nb=\"c\""}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find(R"(path="a\nb=\"c\"")"), std::string::npos) << line;
}

TEST(Log, JsonIsJsonWhateverTheBytes) {
  const std::string line =
      FormatLogLine(LogFormat::kJson, kTime, LogLevel::kCritical,
                    "quote \" slash \\ line \n bad \xff byte", {{"pool", "/mnt/\"x\""}, {"n", 7}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto parsed = nlohmann::json::parse(line);
  EXPECT_EQ(parsed["time"], kTime);
  EXPECT_EQ(parsed["level"], "critical");
  EXPECT_EQ(parsed["message"], "quote \" slash \\ line \n bad \xef\xbf\xbd byte");
  EXPECT_EQ(parsed["pool"], "/mnt/\"x\"");
  EXPECT_EQ(parsed["n"], "7");
}

}  // namespace
}  // namespace lodgekv::server
