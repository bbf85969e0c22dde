#include "index/pmem/last_words.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <string>
#include <thread>

namespace lodgekv::pmem {
namespace {

using std::chrono::milliseconds;

TEST(LastWordsDeathTest, AreSaidBeforeTheAbort) {
  LastWords words;
  words.Add("unit ");
  words.AddNumber(42);
  EXPECT_DEATH(words.Abort(), "unit 42");
}

// A process that writes to a pipe without a reader must still end.
TEST(LastWordsDeathTest, WaitForNobodyWhoDoesNotRead) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const std::string much(1 << 16, 'x');
  while (write(ends[1], much.data(), much.size()) > 0) continue;
  while (write(ends[1], "x", 1) > 0) continue;
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    LastWords words;
    words.Add("nobody hears this");
    words.Abort();
  }
  ASSERT_GT(child, 0);
  int status = 0;
  for (int i = 0; i < 1'000 && waitpid(child, &status, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
  if (!WIFSIGNALED(status)) kill(child, SIGKILL);
  for (const int end : ends) close(end);
}

}  // namespace
}  // namespace lodgekv::pmem
