#include "index/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>

#include "index/pmem/pool.h"
#include "index/pmem/testing/temp_dir.h"

namespace lodgekv {
namespace {

using pmem::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class Event {
 public:
  void Set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool IsSet() {
    const std::lock_guard lock(mutex_);
    return set_;
  }
  // False: it has not come within a minute.
  bool Await() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

// What the next create or recover of the fake engine does.
struct Script {
  absl::Status create;
  absl::Status recover;
  bool die_in_create = false;
  absl::Status close;
  std::function<void()> in_recover = [] {};
  std::function<void()> on_abandon = [] {};
  EngineContext seen;
  int created = 0;
  int recovered = 0;
  int closed = 0;
  int abandoned = 0;  // by the watch's thread, which Close joins
};
Script script;

// An engine that stores one number, in the pool's engine area or nowhere.
class FakeEngine : public Engine {
 public:
  explicit FakeEngine(pmem::Pool* pool) : pool_(pool) {}
  Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult>,
                const WriteOptions&) override {
    pmem::Word& word = pool_->engine_area()[1];
    pool_->medium().Store(word, word.Load() + ops.size());
    pool_->medium().Persist(&word, sizeof word);
    return Outcome::kOk;
  }
  Outcome Read(std::span<const std::string_view>, std::span<ReadResult>,
               const ReadOptions&) override {
    return Outcome::kOk;
  }
  Outcome Scan(const ScanOptions&, ScanVisitor) override { return Outcome::kOk; }
  uint64_t CountKeys() override { return pool_ == nullptr ? 0 : pool_->engine_area()[1].Load(); }
  CheckReport Check() override { return {}; }
  uint64_t AppliedIndex() const override { return 0; }
  void VisitCounters(CounterVisitor) const override {}
  MemoryUse GetMemoryUse() const override { return {}; }
  absl::Status Close() override {
    ++script.closed;
    return script.close;
  }
  void Abandon() override {
    ++script.abandoned;
    script.on_abandon();
  }

 private:
  pmem::Pool* const pool_;
};

absl::StatusOr<std::unique_ptr<Engine>> CreateFake(const EngineContext& context) {
  script.seen = context;
  ++script.created;
  if (context.pool != nullptr) {
    for (const pmem::Word& word : context.pool->engine_area()) EXPECT_EQ(word.Load(), 0u);
    EXPECT_TRUE(context.pool->Chunks().empty());
    EXPECT_TRUE(context.pool->LargeObjects().empty());
    // What a crash at this point leaves.
    context.pool->medium().Store(context.pool->engine_area()[0], 99);
    EXPECT_TRUE(
        context.pool->AcquireChunk(pmem::ChunkUse::kNodes, 256, pmem::ReservePolicy::kKeep).ok());
    context.pool->CommitLarge(context.pool->ReserveLarge(100'000, pmem::ReservePolicy::kKeep));
    if (script.die_in_create) _exit(0);
  }
  if (!script.create.ok()) return script.create;
  return std::make_unique<FakeEngine>(context.pool);
}

absl::StatusOr<std::unique_ptr<Engine>> RecoverFake(const EngineContext& context,
                                                    RecoveryReport* report) {
  script.seen = context;
  ++script.recovered;
  script.in_recover();
  if (!script.recover.ok()) return script.recover;
  report->keys = context.pool->engine_area()[1].Load();
  return std::make_unique<FakeEngine>(context.pool);
}

// Stores the number of pairs.
absl::StatusOr<std::unique_ptr<Engine>> LoadFake(const EngineContext& context,
                                                 const BulkLoad& load) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = CreateFake(context);
  if (!engine.ok()) return engine;
  uint64_t count = 0;
  for (BulkPair pair;; ++count) {
    const absl::StatusOr<bool> more = load.source(&pair);
    if (!more.ok()) return more.status();
    if (!*more) break;
  }
  context.pool->medium().Store(context.pool->engine_area()[1], count);
  return engine;
}

const EngineOption kOptions[] = {{"leaf_bytes", 256, 64, 1024, "size of a leaf"}};

EngineInfo FakeInfo() {
  EngineInfo info;
  info.name = "fake";
  info.media_version = 4;
  info.options = kOptions;
  info.create = CreateFake;
  info.recover = RecoverFake;
  return info;
}

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    script = Script{};
    options_.pool_path = dir_ / "pool";
    options_.pool_size_bytes = 8 * kMiB;
    options_.allow_volatile_medium = true;
  }

  std::unique_ptr<Store> Open() {
    auto store = Store::OpenWith(info_, options_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  absl::Status OpenError() { return Store::OpenWith(info_, options_).status(); }

  static void Write(Store& store, int n) {
    WriteResult result;
    const WriteOp op;
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(store.engine().Write({&op, 1}, {&result, 1}, {}), Outcome::kOk);
    }
  }

  static BulkSource SourceOf(int pairs) {
    return [pairs](BulkPair*) mutable -> absl::StatusOr<bool> { return pairs-- > 0; };
  }

  TempDir dir_;
  StoreOptions options_;
  EngineInfo info_ = FakeInfo();
};

TEST_F(StoreTest, CreatesThenRecovers) {
  {
    auto store = Open();
    EXPECT_TRUE(store->info().created);
    Write(*store, 3);
    EXPECT_TRUE(store->Close().ok());
    EXPECT_TRUE(store->Close().ok());
  }
  EXPECT_EQ(script.created, 1);
  EXPECT_EQ(script.closed, 1);
  auto store = Open();
  EXPECT_EQ(script.created, 1);
  EXPECT_EQ(script.recovered, 1);
  EXPECT_FALSE(store->info().created);
  EXPECT_TRUE(store->info().recovery.clean);
  EXPECT_EQ(store->info().recovery.keys, 3u);
  EXPECT_EQ(store->engine().CountKeys(), 3u);
}

TEST_F(StoreTest, TellsWhatItOpened) {
  options_.key_format = KeyFormat::kFixed64;
  const StoreInfo info = Open()->info();
  EXPECT_EQ(info.engine, "fake");
  EXPECT_EQ(info.key_format, KeyFormat::kFixed64);
  EXPECT_EQ(info.pool_path, options_.pool_path);
  EXPECT_EQ(info.pool_id.size(), 32u);
  EXPECT_EQ(info.pool_id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(info.medium_class, "volatile");
  EXPECT_EQ(info.durability, "process");
  EXPECT_THAT(info.durability_detail, HasSubstr("memory that is not persistent"));
  EXPECT_EQ(info.media_version, 4u);
  EXPECT_FALSE(info.inline_pairs);
  EXPECT_EQ(Open()->info().pool_id, info.pool_id);
}

TEST_F(StoreTest, HandsTheEngineWhatItNeeds) {
  options_.inline_pairs = true;
  options_.engine_options["leaf_bytes"] = "512";
  auto store = Open();
  EXPECT_EQ(script.seen.key_format, KeyFormat::kBytes);
  EXPECT_TRUE(script.seen.inline_pairs);
  EXPECT_EQ(script.seen.options.Get("leaf_bytes"), 512u);
  EXPECT_GE(script.seen.recovery_threads, 1u);
  store.reset();
  options_.recovery_threads = 3;
  Open();
  EXPECT_EQ(script.seen.recovery_threads, 3u);
}

TEST_F(StoreTest, PassesTheEndOfRecoveryOn) {
  EXPECT_TRUE(Open()->engine().GetRecoveryState().finished);
  uint64_t keys = 0;
  options_.on_recovery_end = [&](const RecoveryState& state) { keys = state.report->keys; };
  Open();
  ASSERT_TRUE(script.seen.on_recovery_end);
  script.seen.on_recovery_end({.report = RecoveryReport{.keys = 9}});
  EXPECT_EQ(keys, 9u);
}

TEST_F(StoreTest, SpaceAddsUp) {
  auto store = Open();
  const SpaceUse space = store->GetSpaceUse();
  EXPECT_EQ(space.total_bytes, space.used_bytes + space.free_bytes + space.reserved_bytes);
  EXPECT_GT(space.used_bytes, 100'000u);
  EXPECT_GT(space.free_bytes, 2 * kMiB);
  EXPECT_GT(space.reserved_bytes, 0u);
}

TEST_F(StoreTest, DestroyingItClosesIt) {
  Open();
  EXPECT_EQ(script.closed, 1);
  EXPECT_TRUE(Open()->info().recovery.clean);
}

TEST_F(StoreTest, AFailedCloseIsNotClean) {
  auto store = Open();
  script.close = absl::InternalError("no");
  EXPECT_EQ(store->Close().code(), absl::StatusCode::kInternal);
  script.close = absl::OkStatus();
  EXPECT_FALSE(Open()->info().recovery.clean);
}

TEST_F(StoreTest, RefusesAnotherEnginesPool) {
  Open();
  EngineInfo other = FakeInfo();
  other.name = "other";
  const absl::Status status = Store::OpenWith(other, options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(options_.pool_path), HasSubstr("engine fake"),
                                      HasSubstr("engine other")));
  // Nothing has happened to the pool: it is still clean.
  EXPECT_TRUE(Open()->info().recovery.clean);
}

TEST_F(StoreTest, RefusesAnotherMediaVersion) {
  Open();
  info_.media_version = 5;
  const absl::Status status = OpenError();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(options_.pool_path), HasSubstr("version 4"), HasSubstr("version 5")));
}

TEST_F(StoreTest, RefusesAnotherKeyFormatOrInlinePairs) {
  Open();
  options_.key_format = KeyFormat::kFixed64;
  absl::Status status = OpenError();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(options_.pool_path), HasSubstr("bytes"), HasSubstr("fixed64")));
  options_.inline_pairs = true;
  EXPECT_THAT(OpenError().message(), HasSubstr("inline_pairs belongs to key format bytes"));
  options_.key_format = KeyFormat::kBytes;
  status = OpenError();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("without inline_pairs"), HasSubstr("with;")));
  EXPECT_EQ(script.recovered, 0);
}

TEST_F(StoreTest, RefusesUnknownOptionsBeforeItTouchesThePool) {
  options_.engine_options["leaf_byte"] = "512";
  EXPECT_THAT(OpenError().message(), HasSubstr("leaf_bytes"));
  options_.engine_options = {{"leaf_bytes", "5000"}};
  EXPECT_THAT(OpenError().message(), HasSubstr("1024"));
  EXPECT_EQ(dir_.Names(), "");
}

TEST_F(StoreTest, RefusesAnUnknownEngineAndListsTheKnown) {
  options_.engine = "lodgtree";
  const absl::Status status = Store::Open(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("lodgtree"), HasSubstr("lodgetree"),
                                      HasSubstr("dram"), HasSubstr("null")));
}

TEST_F(StoreTest, RefusesANonEmptyFile) {
  std::ofstream(options_.pool_path) << "somebody's letters";
  EXPECT_EQ(OpenError().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::filesystem::file_size(options_.pool_path), 18u);
}

TEST_F(StoreTest, RefusesAPoolThatIsOpen) {
  auto store = Open();
  const absl::Status status = OpenError();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("another process"));
}

TEST_F(StoreTest, RefusesAVolatileMediumWithoutLeave) {
  options_.allow_volatile_medium = false;
  EXPECT_EQ(OpenError().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(dir_.Names(), "");
}

TEST_F(StoreTest, AFailedCreationLeavesNoPool) {
  script.create = absl::ResourceExhaustedError("no room for the engine's first leaf");
  EXPECT_EQ(OpenError().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(dir_.Names(), "");
  script.create = absl::OkStatus();
  EXPECT_TRUE(Open()->info().created);
}

TEST_F(StoreTest, AnEngineThatGetsNoMemoryIsRefused) {
  info_.create = [](const EngineContext&) -> absl::StatusOr<std::unique_ptr<Engine>> {
    throw std::bad_alloc();
  };
  const absl::Status created = OpenError();
  EXPECT_EQ(created.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(created.message(), AllOf(HasSubstr("fake"), HasSubstr("ulimit -v")));
  EXPECT_EQ(dir_.Names(), "");
  info_ = FakeInfo();
  Write(*Open(), 2);
  info_.recover = [](const EngineContext&,
                     RecoveryReport*) -> absl::StatusOr<std::unique_ptr<Engine>> {
    throw std::bad_alloc();
  };
  EXPECT_EQ(OpenError().code(), absl::StatusCode::kResourceExhausted);
  info_ = FakeInfo();
  EXPECT_EQ(Open()->engine().CountKeys(), 2u);
}

TEST_F(StoreTest, AFailedRecoveryLeavesThePoolAlone) {
  Write(*Open(), 2);
  script.recover = absl::DataLossError("leaf 7 is damaged");
  EXPECT_EQ(OpenError().message(), "leaf 7 is damaged");
  script.recover = absl::OkStatus();
  EXPECT_EQ(Open()->engine().CountKeys(), 2u);
}

TEST_F(StoreTest, CreatesAPoolByBulkLoad) {
  info_.bulk_load = LoadFake;
  options_.bulk_load = BulkLoad{SourceOf(7), 80};
  {
    auto store = Open();
    EXPECT_TRUE(store->info().created);
    EXPECT_EQ(store->engine().CountKeys(), 7u);
  }
  // An existing pool is not loaded into, and stays clean.
  options_.bulk_load->source = SourceOf(9);
  const absl::Status status = OpenError();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(options_.pool_path), HasSubstr("makes a new pool")));
  EXPECT_EQ(script.created, 1);
  options_.bulk_load.reset();
  auto store = Open();
  EXPECT_TRUE(store->info().recovery.clean);
  EXPECT_EQ(store->engine().CountKeys(), 7u);
}

TEST_F(StoreTest, AFailedBulkLoadLeavesNoPool) {
  info_.bulk_load = LoadFake;
  options_.bulk_load =
      BulkLoad{[](BulkPair*) { return absl::UnavailableError("the input has ended"); }, 80};
  EXPECT_EQ(OpenError().message(), "the input has ended");
  EXPECT_EQ(dir_.Names(), "");
}

TEST_F(StoreTest, AnEngineWithoutBulkLoadNamesThoseThatHaveIt) {
  options_.bulk_load = BulkLoad{SourceOf(7), 80};
  const absl::Status status = OpenError();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("engine fake has no bulk load"));
  EXPECT_EQ(dir_.Names(), "");
}

// A crash between the creation of the pool and the end of the engine's creation.
TEST_F(StoreTest, AnUnfinishedCreationIsDoneAgain) {
  const pid_t child = fork();
  if (child == 0) {
    script.die_in_create = true;
    Open();
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(dir_.Names(), "pool");
  // CreateFake checks that the pool looks new. It fails once more, and the pool stays.
  script.create = absl::InternalError("not yet");
  EXPECT_EQ(OpenError().message(), "not yet");
  EXPECT_EQ(dir_.Names(), "pool");
  script.create = absl::OkStatus();
  auto store = Open();
  EXPECT_TRUE(store->info().created);
  EXPECT_EQ(script.recovered, 0);
  Write(*store, 1);
  store.reset();
  EXPECT_EQ(Open()->engine().CountKeys(), 1u);
  EXPECT_EQ(script.recovered, 1);
}

TEST_F(StoreTest, AKilledProcessIsNotClean) {
  Open();
  const pid_t child = fork();
  if (child == 0) {
    auto store = Open();
    Write(*store, 5);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  auto store = Open();
  EXPECT_FALSE(store->info().recovery.clean);
  EXPECT_EQ(store->engine().CountKeys(), 5u);
}

// The loss is noticed while the store is open, and its engine abandoned at once.
TEST_F(StoreTest, AnEngineIsAbandonedWhenItsPoolIsCutShort) {
  Event gone;
  options_.on_pool_gone = [&](const std::string&) { gone.Set(); };
  Event abandoned;
  script.on_abandon = [&] {
    EXPECT_TRUE(gone.IsSet());
    abandoned.Set();
  };
  auto store = Open();
  std::filesystem::resize_file(options_.pool_path, 0);
  EXPECT_TRUE(abandoned.Await());
  EXPECT_EQ(store->Close().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(script.abandoned, 1);
  EXPECT_EQ(script.closed, 0);
}

TEST_F(StoreTest, AnEngineIsClosedWhenItsPoolWasDeleted) {
  options_.on_pool_gone = [](const std::string&) {};
  auto store = Open();
  std::filesystem::remove(options_.pool_path);
  EXPECT_EQ(store->Close().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(script.abandoned, 0);
  EXPECT_EQ(script.closed, 1);
}

// The loss is noticed when there is no engine yet.
TEST_F(StoreTest, AnEngineIsAbandonedWhoseRecoveryEndsAfterTheLoss) {
  Open();
  script.closed = 0;
  Event gone;
  options_.on_pool_gone = [&](const std::string&) { gone.Set(); };
  script.in_recover = [&] {
    std::filesystem::resize_file(options_.pool_path, options_.pool_size_bytes / 2);
    EXPECT_TRUE(gone.Await());
  };
  auto store = Open();
  EXPECT_EQ(store->Close().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(script.abandoned, 1);
  EXPECT_EQ(script.closed, 0);
}

// Closing the pool would touch what is missing.
TEST_F(StoreTest, ARecoveryThatFailsInATruncatedPoolLeavesIt) {
  Open();
  options_.on_pool_gone = [](const std::string&) {};
  script.in_recover = [&] { std::filesystem::resize_file(options_.pool_path, 0); };
  script.recover = absl::DataLossError("leaf 7 is damaged");
  EXPECT_EQ(OpenError().message(), "leaf 7 is damaged");
  EXPECT_EQ(std::filesystem::file_size(options_.pool_path), 0u);
}

TEST_F(StoreTest, AVolatileEngineTakesNoPool) {
  info_.persistent = false;
  const absl::Status status = OpenError();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("stores nothing on a medium"));
  EXPECT_EQ(dir_.Names(), "");
  options_.pool_path.clear();
  auto store = Open();
  EXPECT_EQ(script.seen.pool, nullptr);
  EXPECT_EQ(store->info().medium_class, "none");
  EXPECT_EQ(store->info().durability, "none");
  EXPECT_EQ(store->info().pool_id, "");
  EXPECT_EQ(store->GetSpaceUse().total_bytes, 0u);
  EXPECT_TRUE(store->Close().ok());
}

TEST_F(StoreTest, APersistentEngineNeedsAPool) {
  options_.pool_path.clear();
  const absl::Status status = OpenError();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("needs a pool"));
}

}  // namespace
}  // namespace lodgekv
