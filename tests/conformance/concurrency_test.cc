// Several threads on one engine: what each read of each key must be explained by one order of the
// operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/conformance/history_client.h"
#include "tests/support/threads.h"

namespace lodgekv::test {
namespace {

struct Shape {
  uint32_t threads;
  size_t keys;
};
// Few keys: much contention on each. Many keys: concurrent splits.
constexpr Shape kShapes[] = {{2, 1}, {2, 8}, {4, 4}, {4, 1'000}, {8, 3}, {8, 200}};
constexpr uint64_t kOperationsPerShape = 60'000;

class ConcurrencyTest : public ConformanceTest {
 protected:
  using Step = void (*)(HistoryClient& client, Random& random, const Shape& shape, uint32_t thread,
                        bool has_versions);

  // Runs `step` on all threads and checks each key's history, which ends with a read of every key;
  // for a persistent engine another read follows after a kill.
  void RunHistories(const Shape& shape, Step step) {
    SCOPED_TRACE(::testing::Message() << shape.threads << " threads, " << shape.keys << " keys");
    // The engine still holds values of earlier shapes: they count as written before the history.
    ClearKeys(shape.keys);
    std::vector<std::unique_ptr<HistoryClient>> clients;
    for (uint32_t thread = 0; thread <= shape.threads; ++thread) {
      clients.push_back(std::make_unique<HistoryClient>(engine(), format(), shape.keys, thread));
    }
    const uint64_t steps = Scaled(kOperationsPerShape) / shape.threads + 1;
    RunTogether(shape.threads, [&](uint32_t thread) {
      Random random("concurrency", shape.keys * 64 + thread);
      for (uint64_t i = 0; i < steps; ++i) {
        step(*clients[thread], random, shape, thread, has_versions());
      }
    });
    ReadAll(*clients.back(), shape.keys);
    Histories all(shape.keys);
    for (const auto& client : clients) {
      all.Merge(client->histories());
      for (const std::string& mistake : client->mistakes()) ADD_FAILURE() << mistake;
    }
    if (harness().persistent()) {
      const absl::Status reopened = harness().KillAndReopen();
      ASSERT_TRUE(reopened.ok()) << reopened;
      HistoryClient after(engine(), format(), shape.keys, shape.threads + 1);
      ReadAll(after, shape.keys);
      all.Merge(after.histories());
    }
    EXPECT_GT(all.operations(), steps);
    const auto anomaly = all.FindAnomaly();
    EXPECT_FALSE(anomaly.has_value()) << *anomaly;
    ExpectSound();
  }

  void RunAllShapes(Step step) {
    for (const Shape& shape : kShapes) {
      RunHistories(shape, step);
      if (HasFailure()) return;
    }
  }

 private:
  void ClearKeys(size_t keys) {
    for (size_t key = 0; key < keys; ++key) {
      ASSERT_EQ(Delete(engine(), Key(key)).outcome, Outcome::kOk);
    }
  }

  static void ReadAll(HistoryClient& client, size_t keys) {
    for (size_t key = 0; key < keys; ++key) client.Read({key});
  }
};

// Different keys, at most `most` of them.
std::vector<size_t> DrawKeys(Random& random, size_t keys, size_t most) {
  std::vector<size_t> drawn;
  for (size_t count = random.Between(1, most); count > 0; --count) {
    const size_t key = random.Below(keys);
    if (std::find(drawn.begin(), drawn.end(), key) == drawn.end()) drawn.push_back(key);
  }
  return drawn;
}

// A key that only this thread writes, if there are enough keys for all threads.
size_t OwnKey(Random& random, const Shape& shape, uint32_t thread) {
  if (shape.keys <= shape.threads) return thread % shape.keys;
  return random.Below(shape.keys / shape.threads) * shape.threads + thread;
}

bool WritesItsKey(const Shape& shape, uint32_t thread) {
  return shape.keys >= shape.threads || thread < shape.keys;
}

TEST_P(ConcurrencyTest, OneWriterPerKeyManyReaders) {
  RunAllShapes(
      [](HistoryClient& client, Random& random, const Shape& shape, uint32_t thread, bool) {
        if (WritesItsKey(shape, thread) && random.OneIn(2)) {
          client.Put(OwnKey(random, shape, thread));
        } else {
          client.Read(DrawKeys(random, shape.keys, 6));
        }
      });
}

TEST_P(ConcurrencyTest, OneWriterPerKeyWhichAlsoDeletes) {
  RunAllShapes(
      [](HistoryClient& client, Random& random, const Shape& shape, uint32_t thread, bool) {
        if (!WritesItsKey(shape, thread) || random.OneIn(2)) {
          client.Read(DrawKeys(random, shape.keys, 4));
        } else if (random.OneIn(3)) {
          client.Delete(OwnKey(random, shape, thread));
        } else {
          client.Put(OwnKey(random, shape, thread));
        }
      });
}

TEST_P(ConcurrencyTest, AllThreadsPutAllKeys) {
  RunAllShapes([](HistoryClient& client, Random& random, const Shape& shape, uint32_t, bool) {
    if (random.OneIn(2)) {
      client.Put(random.Below(shape.keys));
    } else {
      client.Read(DrawKeys(random, shape.keys, 6));
    }
  });
}

void DoAnything(HistoryClient& client, Random& random, const Shape& shape, uint32_t,
                bool has_versions) {
  const size_t key = random.Below(shape.keys);
  switch (random.Below(10)) {
    case 0: return client.Put(key);
    case 1: return client.PutIfAbsent(key);
    case 2: return client.PutIfPresent(key);
    case 3: return client.Delete(key);
    case 4: return client.DeleteIfPresent(key);
    case 5: return client.Group(DrawKeys(random, shape.keys, 8), /*atomic=*/false);
    case 6: return client.Group(DrawKeys(random, shape.keys, 8), /*atomic=*/true);
    case 7: return has_versions ? client.ReadAndReplace(key) : client.PutIfAbsent(key);
    default: return client.Read(DrawKeys(random, shape.keys, 6));
  }
}

TEST_P(ConcurrencyTest, EveryOperationOnEveryKey) { RunAllShapes(DoAnything); }

// There the commit words of several threads become visible together, with the journal's group.
class FileConcurrencyTest : public ConcurrencyTest {
 protected:
  HarnessOptions Options() const override { return {.journal_bytes = uint64_t{1} << 20}; }
};

TEST_P(FileConcurrencyTest, EveryOperationOnEveryKey) { RunAllShapes(DoAnything); }

TEST_P(ConcurrencyTest, AtomicGroupsAgainstEachOther) {
  RunAllShapes([](HistoryClient& client, Random& random, const Shape& shape, uint32_t, bool) {
    if (random.OneIn(3)) {
      client.Read(DrawKeys(random, shape.keys, 6));
    } else {
      client.Group(DrawKeys(random, shape.keys, 16), /*atomic=*/true);
    }
  });
}

// A lock built from put-if-absent and delete-if-present protects a counter that is not atomic.
TEST_P(ConcurrencyTest, PutIfAbsentExcludesTheOthers) {
  constexpr size_t kLocks = 3;
  const uint32_t threads = 4;
  const uint64_t rounds = Scaled(3'000);
  std::vector<std::atomic<uint64_t>> counters(kLocks);
  RunTogether(threads, [&](uint32_t thread) {
    for (uint64_t round = 0; round < rounds; ++round) {
      const size_t lock = round % kLocks;
      const std::string key = Key(lock);
      const std::string value = Value(thread);
      while (Apply(engine(), PutOp(key, value, Condition::kIfAbsent)).outcome != Outcome::kOk) {
        std::this_thread::yield();
      }
      const uint64_t before = counters[lock].load(std::memory_order_relaxed);
      EXPECT_EQ(IdOf(Get(engine(), key).value), thread);
      counters[lock].store(before + 1, std::memory_order_relaxed);
      const WriteResult released = Apply(engine(), DeleteOp(key, Condition::kIfPresent));
      EXPECT_EQ(released.outcome, Outcome::kOk);
    }
  });
  uint64_t sum = 0;
  for (const auto& counter : counters) sum += counter.load();
  EXPECT_EQ(sum, threads * rounds);
}

class VersionConcurrencyTest : public ConformanceTest {};

TEST_P(VersionConcurrencyTest, IncrementsByIfVersionAreAllCounted) {
  constexpr size_t kCounters = 3;
  const uint32_t threads = 4;
  const uint64_t rounds = Scaled(4'000);
  PutRange(0, kCounters);
  for (size_t counter = 0; counter < kCounters; ++counter) {
    ASSERT_EQ(Put(engine(), Key(counter), Value(0)).outcome, Outcome::kOk);
  }
  std::atomic<uint64_t> conflicts{0};
  RunTogether(threads, [&](uint32_t thread) {
    for (uint64_t round = 0; round < rounds; ++round) {
      const std::string key = Key((round + thread) % kCounters);
      for (;;) {
        const ReadResult read = Get(engine(), key);
        const std::string next = Value(IdOf(read.value) + 1);
        const WriteResult written =
            Apply(engine(), PutOp(key, next, Condition::kIfVersion, read.version));
        if (written.outcome == Outcome::kOk) break;
        ASSERT_EQ(written.outcome, Outcome::kConditionFailed);
        ASSERT_TRUE(written.found);
        ASSERT_NE(written.version, read.version);
        conflicts.fetch_add(1, std::memory_order_relaxed);
      }
    }
  });
  uint64_t sum = 0;
  for (size_t counter = 0; counter < kCounters; ++counter) {
    sum += IdOf(Get(engine(), Key(counter)).value);
  }
  EXPECT_EQ(sum, threads * rounds);
  RecordProperty("conflicts", std::to_string(conflicts.load()));
}

INSTANTIATE_TEST_SUITE_P(Engines, ConcurrencyTest, ::testing::ValuesIn(StoringCases()),
                         EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, FileConcurrencyTest, ::testing::ValuesIn(PersistentCases()),
                         EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, VersionConcurrencyTest, ::testing::ValuesIn(VersionedCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
