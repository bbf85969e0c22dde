#include "index/pmem/internal/metadata_guard.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <thread>

namespace lodgekv::pmem {
namespace {

constexpr const char* kSaid =
    "lodgekv pool: /some/pool: libpmemobj's own part of it is damaged: .* exit code 65 "
    ".*"
    "docs/crash_model.md\n";

volatile uintptr_t g_nowhere = 8;
volatile int g_zero = 0;

// A sanitizer would end the process first.
#define LODGEKV_AS_WRITTEN __attribute__((no_sanitize("undefined")))

LODGEKV_AS_WRITTEN void Fault() { *reinterpret_cast<volatile int*>(g_nowhere) = 1; }
LODGEKV_AS_WRITTEN void DivideByZero() {
  const int nothing = 7 / g_zero;
  g_zero = nothing;
}
void Loop() {
  while (g_zero == 0) {
  }
}

void InTheGuard(const std::function<void()>& damage) {
  GuardMetadata();
  const InsideLibpmemobj inside("/some/pool", /*most_cpu_seconds=*/1);
  damage();
}

class MetadataGuardDeathTest : public ::testing::Test {
 protected:
  MetadataGuardDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(MetadataGuardDeathTest, FaultsEndTheProcessInOrder) {
  const auto ends = ::testing::ExitedWithCode(kExitDamagedMetadata);
  EXPECT_EXIT(InTheGuard(Fault), ends, kSaid);
  EXPECT_EXIT(InTheGuard(DivideByZero), ends, kSaid);
  EXPECT_EXIT(InTheGuard([] { std::abort(); }), ends, kSaid);
  EXPECT_EXIT(std::thread([] { InTheGuard(Fault); }).join(), ends, kSaid);
}

TEST_F(MetadataGuardDeathTest, ALoopEndsTheProcessInOrder) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it delivers signals at calls that it intercepts; a loop makes none";
#endif
  EXPECT_EXIT(InTheGuard(Loop), ::testing::ExitedWithCode(kExitDamagedMetadata), kSaid);
}

TEST_F(MetadataGuardDeathTest, WhatIsNotLibpmemobjsIsLeftAlone) {
  const auto outside = [](const std::function<void()>& damage) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    GuardMetadata();
    { const InsideLibpmemobj inside("/some/pool"); }
    damage();
  };
  EXPECT_EXIT(outside(Fault), ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(outside([] { std::abort(); }), ::testing::KilledBySignal(SIGABRT), "");
  EXPECT_EXIT(InTheGuard([] { kill(getpid(), SIGABRT); }), ::testing::KilledBySignal(SIGABRT), "");
}

TEST_F(MetadataGuardDeathTest, NobodyAsked) {
  const auto unguarded = [] {
    signal(SIGSEGV, SIG_DFL);
    const InsideLibpmemobj inside("/some/pool");
    Fault();
  };
  EXPECT_EXIT(unguarded(), ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace lodgekv::pmem
