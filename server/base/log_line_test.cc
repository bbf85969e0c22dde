#include "server/base/log_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace lodgekv::server {
namespace {

constexpr std::string_view kTime = "2024-02-29T12:00:00.000Z";

std::string Text(std::string_view message, const std::vector<LogField>& fields) {
  return FormatLogLine(LogFormat::kText, "T", LogLevel::kInfo, message, fields);
}

TEST(LogLineTest, TextQuotesWhereNeeded) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, kTime, LogLevel::kWarning, "slow request",
                          {{"rpc", "Get"}, {"note", "two words"}, {"empty", ""}, {"n", 12}}),
            "2024-02-29T12:00:00.000Z warning  slow request rpc=Get note=\"two words\" empty=\"\" "
            "n=12");
}

TEST(LogLineTest, StaysOneLine) {
  const std::string line = Text("x", {{"path", "a\nb=\"c\""}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find(R"(path="a\nb=\"c\"")"), std::string::npos) << line;
}

// As a client's headers may contain it, which gRPC puts into its messages.
TEST(LogLineTest, NothingFromOutsideMovesTheCursorOrForgesALine) {
  for (const std::string evil : {"\n2024 error forged", "\r", "\x1b[2J", "\x7f",
                                 "\xc2\x9b"
                                 "2J",
                                 "\x9b"
                                 "2J",
                                 "\xff\xfe",
                                 "\xe2\x80\xae"
                                 "txt",
                                 "\xe2\x80\xa8", "\t"}) {
    for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
      EXPECT_TRUE(IsPlain(FormatLogLine(format, "T", LogLevel::kInfo, "m", {{"f", evil}}))) << evil;
      EXPECT_TRUE(IsPlain(FormatLogLine(format, "T", LogLevel::kInfo, evil, {}))) << evil;
    }
  }
  EXPECT_EQ(Text("a\x1b[2J", {}), R"(T info     "a\u001b[2J")");
  EXPECT_EQ(Text("m", {{"f", "\xc2\x9b"}}), R"(T info     m f="\u009b")");
}

TEST(LogLineTest, WhatIsPlainStaysAsItIs) {
  EXPECT_EQ(Text("gr\xc3\xbc\xc3\x9f", {{"pool", "/mnt/\xe6\xbc\xa2"}}),
            "T info     gr\xc3\xbc\xc3\x9f pool=/mnt/\xe6\xbc\xa2");
}

TEST(LogLineTest, JsonIsJsonWhateverTheBytes) {
  const std::string line =
      FormatLogLine(LogFormat::kJson, kTime, LogLevel::kCritical,
                    "quote \" slash \\ line \n bad \xff byte", {{"pool", "/mnt/\"x\""}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto parsed = nlohmann::json::parse(line);
  EXPECT_EQ(parsed["time"], kTime);
  EXPECT_EQ(parsed["level"], "critical");
  EXPECT_EQ(parsed["message"], "quote \" slash \\ line \n bad \xef\xbf\xbd byte");
  EXPECT_EQ(parsed["pool"], "/mnt/\"x\"");
}

TEST(LogLineTest, JsonHasNumbersAsNumbers) {
  const auto parsed = nlohmann::json::parse(FormatLogLine(
      LogFormat::kJson, kTime, LogLevel::kInfo, "m",
      {{"n", 7}, {"big", UINT64_MAX}, {"ms", 1.5}, {"size", "64MiB"}, {"digits", "12"}}));
  EXPECT_EQ(parsed["n"], 7);
  EXPECT_EQ(parsed["big"], UINT64_MAX);
  EXPECT_EQ(parsed["ms"], 1.5);
  EXPECT_EQ(parsed["size"], "64MiB");
  EXPECT_EQ(parsed["digits"], "12");
}

}  // namespace
}  // namespace lodgekv::server
