#include "index/pmem/internal/bad_page.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lodgekv::pmem {
namespace {

constexpr uint64_t kPage = 4096;

void NoCore() {
  const rlimit core{0, 0};
  setrlimit(RLIMIT_CORE, &core);
}

// Pages of an empty file: none of them can be read or written.
char* BadPages(uint64_t pages) {
  const int fd = memfd_create("bad pages", MFD_CLOEXEC);
  void* at = mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

void Read(const char* at) { (void)*static_cast<const volatile char*>(at); }
void Write(char* at) { *static_cast<volatile char*>(at) = 1; }

constexpr char kSays[] =
    "^lodgekv pool: /some/pool: the page at offset 8195 cannot be read or written: .* ends with "
    "exit code 74 and changes nothing more. Before a restart see .*docs/crash_model.md\n$";

TEST(BadPageTest, IsRefusedByName) {
  char* pages = BadPages(4);
  ASSERT_NE(pages, nullptr);
  const auto meet = [&](auto touch) {
    const WatchedPages watched(pages, 4 * kPage, "/some/pool");
    touch(pages + 2 * kPage + 3);
    _exit(0);
  };
  EXPECT_EXIT(meet(Read), ::testing::ExitedWithCode(kExitBadPage), kSays);
  EXPECT_EXIT(meet(Write), ::testing::ExitedWithCode(kExitBadPage), kSays);
}

TEST(BadPageTest, OfSeveralThreadsOneSpeaks) {
  char* pages = BadPages(4);
  ASSERT_NE(pages, nullptr);
  const auto meet = [&] {
    const WatchedPages watched(pages, 4 * kPage, "/some/pool");
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back(Read, pages + 2 * kPage + 3);
    for (std::thread& thread : threads) thread.join();
    _exit(0);
  };
  EXPECT_EXIT(meet(), ::testing::ExitedWithCode(kExitBadPage), kSays);
}

TEST(BadPageTest, OfAPoolThatIsBeingOpenedIsRefusedByName) {
  char* pages = BadPages(1);
  ASSERT_NE(pages, nullptr);
  const auto meet = [&] {
    const OpeningPool opening("/some/pool");
    Read(pages);
    _exit(0);
  };
  EXPECT_EXIT(meet(), ::testing::ExitedWithCode(kExitBadPage),
              "^lodgekv pool: /some/pool: a page that is needed to open it cannot be read");
}

TEST(BadPageTest, ElsewhereIsNobodysConcern) {
  char* pages = BadPages(4);
  ASSERT_NE(pages, nullptr);
  const auto die = [&](bool forget, int signal) {
    NoCore();
    // There was no previous handler.
    ::signal(SIGBUS, SIG_DFL);
    std::optional<WatchedPages> watched(std::in_place, pages, 2 * kPage, "/some/pool");
    { const OpeningPool opening("/some/pool"); }
    if (forget) watched.reset();
    if (signal != 0) raise(signal);
    Read(forget ? pages : pages + 3 * kPage);
    _exit(0);
  };
  EXPECT_EXIT(die(false, 0), ::testing::KilledBySignal(SIGBUS), "^$");
  EXPECT_EXIT(die(true, 0), ::testing::KilledBySignal(SIGBUS), "^$");
  EXPECT_EXIT(die(false, SIGBUS), ::testing::KilledBySignal(SIGBUS), "^$");
}

TEST(BadPageTest, ALongPathIsCutShort) {
  char* pages = BadPages(1);
  ASSERT_NE(pages, nullptr);
  const auto meet = [&] {
    const WatchedPages watched(pages, kPage, std::string(5000, 'p'));
    Read(pages);
    _exit(0);
  };
  EXPECT_EXIT(meet(), ::testing::ExitedWithCode(kExitBadPage), "p: the page at offset 0 .*md\n$");
}

}  // namespace
}  // namespace lodgekv::pmem
