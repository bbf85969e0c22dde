#include "server/base/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <string>

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{10'000};

class LogWriterTest : public ::testing::Test {
 protected:
  LogWriterTest() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~LogWriterTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }

  static std::string Describe(uint64_t dropped) { return "dropped " + std::to_string(dropped); }

  // What is in the pipe up to and including `last`.
  std::string ReadUntil(const std::string& last) {
    std::string text;
    std::array<char, 4'096> piece{};
    while (text.find(last) == std::string::npos) {
      const ssize_t n = read(ends_[0], piece.data(), piece.size());
      if (n <= 0) break;
      text.append(piece.data(), static_cast<size_t>(n));
    }
    return text;
  }

  // The sum of all reports of dropped lines.
  static uint64_t SumOfDropped(const std::string& text) {
    const std::string word = "dropped ";
    uint64_t sum = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      sum += std::stoull(text.substr(at + word.size()));
    }
    return sum;
  }

  std::array<int, 2> ends_{};
};

TEST_F(LogWriterTest, WritesLinesInOrder) {
  LogWriter writer(ends_[1], Describe);
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    writer.Write("line " + std::to_string(i));
    expected += "line " + std::to_string(i) + "\n";
  }
  writer.Flush(kLong);
  EXPECT_EQ(ReadUntil("line 99\n"), expected);
  EXPECT_EQ(writer.dropped(), 0U);
}

TEST_F(LogWriterTest, ALineThatIsTooLongIsCutBetweenCharacters) {
  LogWriter writer(ends_[1], Describe);
  std::string line = "x";
  while (line.size() < 20'000) line += "\xe6\xbc\xa2";
  writer.Write(line);
  const std::string cut = ReadUntil("\n");
  EXPECT_EQ(cut, line.substr(0, 8'191 - 8'190 % 3) + " (cut)\n");
}

// 20,000 lines of 100 bytes are more than the pipe and the writer hold.
TEST_F(LogWriterTest, AThreadThatLogsNeverWaitsAndDroppedLinesAreCounted) {
  LogWriter writer(ends_[1], Describe);
  constexpr uint64_t kLines = 20'000;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < kLines; ++i) writer.Write(std::string(100, 'x'));
  writer.Flush(milliseconds(50));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong);
  const uint64_t dropped = writer.dropped();
  EXPECT_GT(dropped, kLines / 2);
  writer.Write("last");
  const std::string text = ReadUntil("last\n");
  EXPECT_GE(writer.dropped(), dropped);
  EXPECT_EQ(SumOfDropped(text), writer.dropped());
}

TEST_F(LogWriterTest, AClosedReaderIsNoError) {
  close(ends_[0]);
  const auto before = signal(SIGPIPE, SIG_IGN);
  LogWriter writer(ends_[1], Describe);
  writer.Write("nobody");
  writer.Flush(kLong);
  EXPECT_EQ(writer.dropped(), 1U);
  signal(SIGPIPE, before);
  ends_[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

}  // namespace
}  // namespace lodgekv::server
