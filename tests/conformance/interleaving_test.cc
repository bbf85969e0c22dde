// One writer, stopped at each of its fences and crash points while another thread reads and scans
// everything: at each of them all other keys are there, and those in flight have their old or their
// new value.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "index/pmem/internal/tracer.h"
#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

// A value, or nothing where the key is absent.
using State = std::optional<std::string>;

// What a reader may find: one of two states for keys in flight.
struct Expectation {
  struct InFlight {
    State before;
    State after;
    bool seen_after = false;  // once seen, it must stay
  };
  std::map<std::string, std::string> settled;
  std::map<std::string, InFlight> in_flight;
};

// Stops the traced thread until an observer on another thread has read everything.
class PausingTracer final : public pmem::Tracer {
 public:
  // An observer blocked by the stopped writer is released after `patience`.
  PausingTracer(std::chrono::milliseconds patience, std::function<void()> observe)
      : patience_(patience),
        observe_(std::move(observe)),
        observer_([this] { ObserveUntilEnded(); }) {}
  ~PausingTracer() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    observer_.join();
  }

  void OnStore(const void*, size_t, bool) override {}
  void OnFlush(const void*) override {}
  void OnFence() override { Pause(kFence); }
  void OnCrashPoint(std::string_view name) override { Pause(name); }
  bool OnCanary(std::string_view) override { return false; }

  // Only the calling thread is stopped from now on.
  void Arm() { armed_ = std::this_thread::get_id(); }
  void Disarm() {
    armed_ = {};
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return observed_ == requested_; });
  }
  uint64_t pauses() const { return pauses_; }
  uint64_t waits() const { return waits_; }
  // For the observer: the last crash point that the writer passed.
  std::string step() {
    const std::lock_guard lock(mutex_);
    return std::string(last_point_) + (at_fence_ ? ", then a fence" : "");
  }
  // For the observer: whether the writer is still where it was when the observer began.
  bool WriterStands() {
    const std::lock_guard lock(mutex_);
    return standing_;
  }

 private:
  static constexpr std::string_view kFence = "a fence";

  void Pause(std::string_view point) {
    if (armed_ != std::this_thread::get_id()) return;
    ++pauses_;
    std::unique_lock lock(mutex_);
    at_fence_ = point == kFence;
    if (!at_fence_) last_point_ = point;
    if (observed_ != requested_) return;  // still waiting, for something that this thread holds
    ++requested_;
    standing_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, patience_, [this] { return observed_ == requested_; })) ++waits_;
    standing_ = false;
  }

  void ObserveUntilEnded() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || observed_ != requested_; });
      if (ended_) return;
      lock.unlock();
      observe_();
      lock.lock();
      observed_ = requested_;
      changed_.notify_all();
    }
  }

  const std::chrono::milliseconds patience_;
  const std::function<void()> observe_;
  std::thread::id armed_;
  uint64_t pauses_ = 0;
  uint64_t waits_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string last_point_ = "the start";
  bool at_fence_ = false;
  uint64_t requested_ = 0;
  uint64_t observed_ = 0;
  bool standing_ = false;
  bool ended_ = false;
  std::thread observer_;
};

// On a medium with long fences, where readers rarely wait, or with short ones, where they may wait
// for the fence of what is being published.
class InterleavingTest : public ::testing::TestWithParam<std::tuple<EngineCase, bool>> {
 protected:
  static constexpr uint64_t kKeys = 150;

  void SetUp() override {
    HarnessOptions options{.memory_bytes = uint64_t{8} << 20, .chunk_bytes = uint64_t{32} << 10};
    options.tracer = &tracer_;
    options.strict_order = long_fences_;
    auto harness = EngineHarness::Create(engine_case_, options);
    if (engine_case_.inline_pairs && absl::IsUnimplemented(harness.status())) {
      GTEST_SKIP() << harness.status();
    }
    ASSERT_TRUE(harness.ok()) << harness.status();
    harness_ = *std::move(harness);
    for (uint64_t number = 0; number < kKeys; ++number) keys_.push_back(Key(number));
  }

  Engine& engine() { return harness_->engine(); }
  std::string Key(uint64_t number) const { return OrderedKey(engine_case_.key_format, number); }

  std::map<std::string, State> NextGroup(bool one) {
    std::map<std::string, State> group;
    for (uint64_t size = one ? 1 : random_.Between(2, 40); size > 0; --size) {
      State& state = group[keys_[random_.Below(kKeys)]];
      state.reset();
      if (random_.OneIn(4)) continue;
      ++last_id_;
      state = ValueOf(engine_case_.key_format, last_id_, 8 + last_id_ % 40);
    }
    return group;
  }

  // Writes the group, observed at every step.
  void Write(const std::map<std::string, State>& group, bool atomic) {
    for (const auto& [key, after] : group) {
      const auto before = expected_.settled.find(key);
      Expectation::InFlight& flight = expected_.in_flight[key];
      if (before != expected_.settled.end()) flight.before = before->second;
      flight.after = after;
      if (before != expected_.settled.end()) expected_.settled.erase(before);
    }
    std::vector<WriteOp> ops;
    for (const auto& [key, after] : group) {
      ops.push_back(after ? PutOp(key, *after) : DeleteOp(key));
    }
    std::vector<WriteResult> results(ops.size());
    tracer_.Arm();
    const Outcome outcome = engine().Write(ops, results, {.atomic = atomic});
    tracer_.Disarm();
    ASSERT_EQ(outcome, Outcome::kOk);
    for (const auto& [key, after] : group) {
      if (after) expected_.settled[key] = *after;
    }
    expected_.in_flight.clear();
  }

  // On the observer's thread, while the writer is stopped.
  void Observe() {
    if (HasFailure()) return;
    std::vector<std::string_view> views(keys_.begin(), keys_.end());
    std::vector<ReadResult> results(views.size());
    const Outcome outcome = engine().Read(views, results, {});
    if (!tracer_.WriterStands()) return;
    SCOPED_TRACE("the writer stands after step " + tracer_.step());
    EXPECT_EQ(outcome, Outcome::kOk);
    for (size_t i = 0; i < keys_.size(); ++i) {
      Compare(keys_[i], results[i].found ? State(results[i].value) : std::nullopt, "read");
    }
    for (const bool reverse : {false, true}) {
      std::map<std::string, std::string> scanned;
      for (const Pair& pair : ScanAll(engine(), {.reverse = reverse})) {
        scanned[pair.key] = pair.value;
      }
      if (!tracer_.WriterStands()) return;
      for (const std::string& key : keys_) {
        const auto it = scanned.find(key);
        Compare(key, it == scanned.end() ? std::nullopt : State(it->second),
                reverse ? "reverse scan" : "scan");
      }
    }
  }

  void Compare(const std::string& key, const State& actual, std::string_view what) {
    const auto flight = expected_.in_flight.find(key);
    if (flight == expected_.in_flight.end()) {
      const auto settled = expected_.settled.find(key);
      const State expected =
          settled == expected_.settled.end() ? std::nullopt : State(settled->second);
      EXPECT_TRUE(actual == expected) << what << " of " << Show(key) << ", not in flight, gave "
                                      << Describe(actual) << ", not " << Describe(expected);
      return;
    }
    Expectation::InFlight& state = flight->second;
    const bool is_after = actual == state.after;
    const bool is_before = actual == state.before;
    EXPECT_TRUE(is_after || (is_before && !state.seen_after))
        << what << " of " << Show(key) << ", in flight, gave " << Describe(actual) << "; it was "
        << Describe(state.before) << " and becomes " << Describe(state.after)
        << (state.seen_after ? ", which was seen already" : "");
    if (is_after && !is_before) state.seen_after = true;
  }

  static std::string Describe(const State& state) { return state ? Show(*state) : "nothing"; }

  const EngineCase engine_case_ = std::get<0>(GetParam());
  const bool long_fences_ = std::get<1>(GetParam());
  Expectation expected_;
  std::vector<std::string> keys_;
  Random random_{"interleaving"};
  uint64_t last_id_ = 0;
  PausingTracer tracer_{std::chrono::milliseconds(long_fences_ ? 200 : 20), [this] { Observe(); }};
  std::unique_ptr<EngineHarness> harness_;
};

TEST_P(InterleavingTest, ReadersAtEveryStepOfAWrite) {
  SCOPED_TRACE(SeedNote());
  // A group of small nodes has some ten times the steps.
  const uint64_t most = engine_case_.small_nodes ? 600 : 3'000;
  const uint64_t groups = long_fences_ ? Scaled(most) + 100 : Scaled(200) + 100;
  for (uint64_t i = 0; i < groups && !HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "group " << i);
    Write(NextGroup(random_.Percent(80)), random_.OneIn(3));
  }
  EXPECT_GE(tracer_.pauses(), groups);
  // A reader may wait for a writer that publishes, but not for most of its fences.
  EXPECT_LT(tracer_.waits(), tracer_.pauses() / (long_fences_ ? 10 : 2));
  RecordProperty("waits", std::to_string(tracer_.waits()));
}

struct ParameterName {
  std::string operator()(const ::testing::TestParamInfo<std::tuple<EngineCase, bool>>& info) const {
    const auto& [engine_case, long_fences] = info.param;
    return engine_case.Name() + (long_fences ? "_long_fences" : "_short_fences");
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, InterleavingTest,
                         ::testing::Combine(::testing::ValuesIn(PersistentCases()),
                                            ::testing::Bool()),
                         ParameterName());
// A build may have volatile engines only.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(InterleavingTest);

}  // namespace
}  // namespace lodgekv::test
