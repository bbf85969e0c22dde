// Tests of the tests: the threads' histories must reveal the mistakes that they are meant to find.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "index/registry.h"
#include "tests/conformance/faulty_engine.h"
#include "tests/conformance/history_client.h"
#include "tests/support/engine_calls.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

namespace lodgekv::test {
namespace {

constexpr size_t kKeys = 4;

std::unique_ptr<Engine> MakeDram() {
  const auto dram = FindEngine("dram");
  EXPECT_TRUE(dram.ok()) << dram.status();
  auto engine = (*dram)->create({});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

void AnyOperation(HistoryClient& client, Random& random) {
  const size_t key = random.Below(kKeys);
  switch (random.Below(7)) {
    case 0: return client.Put(key);
    case 1: return client.PutIfAbsent(key);
    case 2: return client.PutIfPresent(key);
    case 3: return client.Delete(key);
    case 4: return client.ReadAndReplace(key);
    case 5: return client.Group({key, (key + 1) % kKeys, (key + 2) % kKeys}, random.OneIn(2));
    default: return client.Read({key});
  }
}

// The complaints of `threads` clients.
std::optional<std::string> Complaint(Engine& engine, uint32_t threads, uint64_t steps) {
  std::vector<std::unique_ptr<HistoryClient>> clients;
  for (uint32_t thread = 0; thread < threads; ++thread) {
    clients.push_back(std::make_unique<HistoryClient>(engine, KeyFormat::kBytes, kKeys, thread));
  }
  RunTogether(threads, [&](uint32_t thread) {
    Random random("history-self-test", thread);
    for (uint64_t step = 0; step < steps; ++step) AnyOperation(*clients[thread], random);
  });
  Histories all(kKeys);
  for (const auto& client : clients) {
    if (!client->mistakes().empty()) return client->mistakes().front();
    all.Merge(client->histories());
  }
  return all.FindAnomaly();
}

TEST(HistorySelfTest, NothingIsWrongWithTheOracle) {
  const auto engine = MakeDram();
  for (const uint32_t threads : {1, 2, 4}) {
    const auto complaint = Complaint(*engine, threads, Scaled(5'000));
    EXPECT_FALSE(complaint.has_value()) << *complaint << "\n" << SeedNote();
    for (size_t key = 0; key < kKeys; ++key) {
      static_cast<void>(Delete(*engine, OrderedKey(KeyFormat::kBytes, key)));
    }
  }
}

TEST(HistorySelfTest, MistakesOfOneOperationAreSeen) {
  for (const Fault fault :
       {Fault::kLosesAPut, Fault::kLosesADelete, Fault::kReadsAnOldValue, Fault::kReadsAnAbsentKey,
        Fault::kConditionIsIgnored, Fault::kRefusedGroupIsHalfApplied}) {
    const auto engine = MakeFaultyEngine(KeyFormat::kBytes, fault);
    EXPECT_TRUE(Complaint(*engine, 1, 20'000).has_value()) << fault;
  }
}

// Tests conditions first and writes afterwards, with a gap for others in between.
class RacyEngine final : public Engine {
 public:
  explicit RacyEngine(std::unique_ptr<Engine> sound) : sound_(std::move(sound)) {}

  [[nodiscard]] Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                              const WriteOptions& options) override {
    std::vector<WriteOp> changed(ops.begin(), ops.end());
    for (WriteOp& op : changed) {
      const ReadResult read = Get(*sound_, op.key);
      const bool holds = (op.condition == Condition::kIfAbsent && !read.found) ||
                         (op.condition == Condition::kIfPresent && read.found) ||
                         (op.condition == Condition::kIfVersion && read.version == op.if_version);
      if (holds) op.condition = Condition::kNone;
    }
    std::this_thread::yield();
    return sound_->Write(changed, results, options);
  }
  [[nodiscard]] Outcome Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
                             const ReadOptions& options) override {
    return sound_->Read(keys, results, options);
  }
  [[nodiscard]] Outcome Scan(const ScanOptions& options, ScanVisitor visitor) override {
    return sound_->Scan(options, visitor);
  }
  [[nodiscard]] uint64_t CountKeys() override { return sound_->CountKeys(); }
  [[nodiscard]] CheckReport Check() override { return sound_->Check(); }
  [[nodiscard]] uint64_t AppliedIndex() const override { return sound_->AppliedIndex(); }
  void VisitCounters(CounterVisitor visitor) const override { sound_->VisitCounters(visitor); }
  [[nodiscard]] MemoryUse GetMemoryUse() const override { return sound_->GetMemoryUse(); }
  absl::Status Close() override { return sound_->Close(); }

 private:
  std::unique_ptr<Engine> sound_;
};

TEST(HistorySelfTest, ConditionsThatAreNotOneStepAreSeen) {
  RacyEngine alone(MakeDram());
  const auto complaint = Complaint(alone, 1, 5'000);
  EXPECT_FALSE(complaint.has_value()) << "one thread cannot race: " << *complaint;
  bool caught = false;
  for (int attempt = 0; attempt < 20 && !caught; ++attempt) {
    RacyEngine engine(MakeDram());
    caught = Complaint(engine, 4, 3'000).has_value();
  }
  EXPECT_TRUE(caught);
}

}  // namespace
}  // namespace lodgekv::test
