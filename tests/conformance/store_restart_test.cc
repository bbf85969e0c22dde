// Pool files through Store::Open, as a daemon uses it: closed and reopened, and used by a process
// that is killed during its writes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "index/pmem/testing/temp_dir.h"
#include "index/store.h"
#include "tests/support/engine_calls.h"
#include "tests/support/engine_case.h"
#include "tests/support/key_sets.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

namespace lodgekv::test {
namespace {

constexpr uint32_t kWriters = 2;
constexpr uint64_t kMostInARun = 6000;

// What writers in another process have had acknowledged: each puts its own keys in ascending order.
struct Acknowledged {
  std::atomic<uint64_t> keys[kWriters];
};

class SharedAcknowledged {
 public:
  SharedAcknowledged() {
    void* at = mmap(nullptr, sizeof(Acknowledged), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) std::abort();
    acknowledged_ = new (at) Acknowledged{};
  }
  ~SharedAcknowledged() { munmap(acknowledged_, sizeof(Acknowledged)); }
  SharedAcknowledged(const SharedAcknowledged&) = delete;
  SharedAcknowledged& operator=(const SharedAcknowledged&) = delete;
  Acknowledged* operator->() const { return acknowledged_; }

 private:
  Acknowledged* acknowledged_;
};

class StoreRestartTest : public ::testing::TestWithParam<EngineCase> {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> Open() const {
    StoreOptions options;
    options.engine = std::string(GetParam().engine->name);
    options.pool_path = folder_ / "test.pool";
    options.pool_size_bytes = uint64_t{64} << 20;
    options.key_format = GetParam().key_format;
    options.inline_pairs = GetParam().inline_pairs;
    options.allow_volatile_medium = true;
    const OptionValues values = OptionsFor(GetParam());
    for (const auto& [name, value] : values.values()) {
      options.engine_options[name] = std::to_string(value);
    }
    options.recovery_threads = 2;
    return Store::Open(options);
  }

  std::string Key(uint64_t number) const { return OrderedKey(GetParam().key_format, number); }
  std::string Value(uint64_t id) const { return ValueOf(GetParam().key_format, id, 8 + id % 90); }

  // Key number i of a writer in one run of the process.
  static uint64_t Number(uint64_t run, uint32_t writer, uint64_t i) {
    return (run * kWriters + writer) * 1'000'000 + i;
  }

  // In the child: opens, writes until it is killed. Does not return.
  [[noreturn]] void WriteUntilKilled(uint64_t run, const SharedAcknowledged& acknowledged) const {
    auto store = Open();
    if (!store.ok()) _exit(3);
    Engine& engine = (*store)->engine();
    RunTogether(kWriters, [&](uint32_t writer) {
      for (uint64_t i = 0;; ++i) {
        const uint64_t number = Number(run, writer, i);
        while (i == kMostInARun) pause();  // or a fast machine would fill the pool
        if (Put(engine, Key(number), Value(number)).outcome != Outcome::kOk) _exit(4);
        acknowledged->keys[writer].store(i + 1);
      }
    });
    _exit(5);
  }

  // Lets the writers in `child` run for `more` after their first acknowledgement.
  static void KillAfterFirstPut(pid_t child, const SharedAcknowledged& acknowledged,
                                std::chrono::microseconds more) {
    int status = 0;
    while (acknowledged->keys[0].load() == 0) {
      ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << "the writer ended with " << status;
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(more);
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself, with " << status;
  }

  // Every acknowledged key must be there, and of each writer at most the one in flight beyond them.
  void ExpectAcknowledged(Engine& engine, uint64_t run,
                          const SharedAcknowledged& acknowledged) const {
    for (uint32_t writer = 0; writer < kWriters; ++writer) {
      const uint64_t keys = acknowledged->keys[writer].load();
      for (uint64_t i = 0; i < keys; ++i) {
        const uint64_t number = Number(run, writer, i);
        const ReadResult read = Get(engine, Key(number));
        ASSERT_TRUE(read.found) << "writer " << writer << ", key " << i << " of " << keys;
        ASSERT_EQ(read.value, Value(number));
      }
      const std::string start = Key(Number(run, writer, keys));
      const std::string end = Key(Number(run, writer + 1, 0));
      EXPECT_LE(ScanKeys(engine, {.start = start, .end = end}).size(), 1u) << "writer " << writer;
    }
  }

 private:
  const pmem::TempDir folder_;
};

TEST_P(StoreRestartTest, ClosedAndOpenedAgain) {
  const uint64_t keys = Scaled(2'000);
  for (uint64_t run = 0; run < 4; ++run) {
    auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->info().created, run == 0);
    if (run > 0) {
      EXPECT_TRUE((*store)->info().recovery.clean);
    }
    Engine& engine = (*store)->engine();
    ASSERT_EQ(engine.CountKeys(), run * keys);
    const std::vector<std::string> scanned = ScanKeys(engine);
    for (uint64_t number = 0; number < run * keys; ++number) {
      ASSERT_EQ(scanned[number], Key(number));
      ASSERT_EQ(Get(engine, Key(number)).value, Value(number));
    }
    for (uint64_t number = run * keys; number < (run + 1) * keys; ++number) {
      ASSERT_EQ(Put(engine, Key(number), Value(number)).outcome, Outcome::kOk);
    }
    const absl::Status closed = (*store)->Close();
    ASSERT_TRUE(closed.ok()) << closed;
  }
}

TEST_P(StoreRestartTest, KilledInTheMiddleOfWrites) {
  SCOPED_TRACE(SeedNote());
  Random random("kill");
  uint64_t written = 0;
  for (uint64_t run = 0; run < 6; ++run) {
    const SharedAcknowledged acknowledged;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteUntilKilled(run, acknowledged);
    KillAfterFirstPut(child, acknowledged, std::chrono::microseconds(random.Below(30'000)));
    if (HasFatalFailure()) return;
    auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_FALSE((*store)->info().recovery.clean);
    ExpectAcknowledged((*store)->engine(), run, acknowledged);
    const CheckReport report = (*store)->engine().Check();
    EXPECT_EQ(report.problem_count, 0u) << report.problems.front();
    EXPECT_GE(report.keys, written);
    for (const auto& keys : acknowledged->keys) written += keys.load();
    EXPECT_GE(report.keys, written);
    ASSERT_TRUE((*store)->Close().ok());
  }
  EXPECT_GT(written, 0u);
}

INSTANTIATE_TEST_SUITE_P(Engines, StoreRestartTest, ::testing::ValuesIn(PersistentCases()),
                         EngineCaseName());
// A build may have volatile engines only.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreRestartTest);

}  // namespace
}  // namespace lodgekv::test
