#include "bench/engine_bench/full_run.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/engine_bench/tsc_clock.h"
#include "client/workload/random.h"
#include "index/key_format_name.h"

namespace lodgekv::bench {
namespace {

// A pool counts as full when at most one of a hundred of these puts fits.
constexpr uint64_t kPutsOfFull = 1000;

// Accesses keys by their running index, each with its own value.
class Client {
 public:
  Client(EngineTarget& target, workload::Histogram& ticks)
      : engine_(target.store().engine()),
        writer_(target.key_writer()),
        fixed64_(target.id().key_format == KeyFormatName(KeyFormat::kFixed64)),
        value_(target.value_bytes(), 'v'),
        ticks_(ticks) {}

  Outcome Put(uint64_t index) {
    return Write({.kind = WriteKind::kPut, .key = Key(index), .value = value_});
  }
  Outcome Delete(uint64_t index) { return Write({.kind = WriteKind::kDelete, .key = Key(index)}); }
  // Returns whether the key exists.
  bool Read(uint64_t index) {
    const std::string_view key = Key(index);
    const uint64_t begin = TscClock::Now(OpEnd::kRetired);
    const Outcome outcome = engine_.Read({&key, 1}, {&read_, 1}, {});
    Note(begin);
    return outcome == Outcome::kOk && read_.found;
  }

 private:
  std::string_view Key(uint64_t index) {
    ref_[0] = {index, Distribution::kUniform, false};
    batch_.key_bytes.clear();
    batch_.key_ends.clear();
    writer_.Fill(ref_, &batch_);
    if (!fixed64_) return batch_.key_bytes;
    const uint64_t big_endian = __builtin_bswap64(batch_.numbers[0]);
    key_.assign(reinterpret_cast<const char*>(&big_endian), sizeof(big_endian));
    return key_;
  }

  Outcome Write(const WriteOp& op) {
    const uint64_t begin = TscClock::Now(OpEnd::kRetired);
    const Outcome outcome = engine_.Write({&op, 1}, {&written_, 1}, {});
    Note(begin);
    return outcome;
  }

  void Note(uint64_t begin) { ticks_.Add(TscClock::Now(OpEnd::kRetired) - begin); }

  Engine& engine_;
  const KeyWriter& writer_;
  const bool fixed64_;
  const std::string value_;
  workload::Histogram& ticks_;
  KeyRef ref_[1];
  OpBatch batch_;
  std::string key_;
  WriteResult written_;
  ReadResult read_;
};

// Reads permanent keys until it is stopped, to measure how long readers wait.
class Reader {
 public:
  Reader(EngineTarget& target, uint64_t keys, uint64_t seed)
      : thread_([this, &target, keys, seed] {
          Client client(target, ticks_);
          workload::Random random(seed);
          while (!stop_.load(std::memory_order_relaxed)) {
            if (!client.Read(random.Below(keys))) ++lost_;
          }
        }) {}
  ~Reader() { (void)Stop(); }

  // Returns the number of keys that it did not find.
  uint64_t Stop() {
    stop_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
    return lost_;
  }
  const workload::Histogram& ticks() const { return ticks_; }

 private:
  std::atomic<bool> stop_{false};
  workload::Histogram ticks_;
  uint64_t lost_ = 0;
  std::thread thread_;
};

// Half of the loaded keys stay, for readers; the others are put and deleted, the oldest first.
class FullPool {
 public:
  FullPool(const BenchOptions& options, const Subject& subject, EngineTarget& target)
      : options_(options), subject_(subject), target_(target), random_(options.seed) {}

  absl::StatusOr<std::vector<FullStageResult>> Run() {
    Stage("load", options_.keys, &FullPool::Put);
    Measure("with room: ");
    Stage("fill", UINT64_MAX, &FullPool::PutUntilFull);
    Stage("full: put", options_.ops, &FullPool::Put);
    Measure("full: ");
    Stage("1 % deleted", come_and_go_.size() / 100, &FullPool::Delete);
    Stage("1 % deleted: turn", options_.ops / 2, &FullPool::Turn);
    if (!status_.ok()) return status_;
    return std::move(stages_);
  }

 private:
  // Does one operation, or a few; returns false at the end of the stage.
  using Step = bool (FullPool::*)(Client& client);

  void Measure(const std::string& state) {
    Stage(state + "read", options_.ops, &FullPool::Read);
    Stage(state + "turn", options_.ops / 2, &FullPool::Turn);
    Stage(state + "update", options_.ops, &FullPool::Update);
  }

  void Stage(const std::string& name, uint64_t steps, Step step) {
    if (!status_.ok()) return;
    FullStageResult& result = stages_.emplace_back();
    result.id = subject_.Id();
    result.keys = options_.keys;
    result.stage = name;
    refused_ = 0;
    Client client(target_, result.ticks);
    std::unique_ptr<Reader> reader;
    if (next_ != 0) reader = std::make_unique<Reader>(target_, Staying(), options_.seed + 1);
    for (uint64_t i = 0; i < steps && status_.ok() && (this->*step)(client); ++i) {
    }
    if (reader != nullptr) {
      if (reader->Stop() != 0) Fail(name, "a reader lost a key");
      result.reader_ticks = reader->ticks();
    }
    result.refused = refused_;
    result.live_keys = Staying() + come_and_go_.size();
    result.memory = target_.GetMemoryUse();
  }

  bool Put(Client& client) {
    const uint64_t index = next_++;
    if (!Accepted(client.Put(index))) return true;
    if (index >= Staying()) come_and_go_.push_back(index);
    return true;
  }
  bool PutUntilFull(Client& client) {
    const uint64_t refused = refused_;
    for (uint64_t i = 0; i < kPutsOfFull; ++i) (void)Put(client);
    return refused_ - refused < kPutsOfFull * 99 / 100;
  }
  bool Delete(Client& client) {
    if (!Accepted(client.Delete(come_and_go_.front()))) Fail("delete", "it was refused");
    come_and_go_.pop_front();
    return true;
  }
  bool Turn(Client& client) { return Delete(client) && Put(client); }
  bool Update(Client& client) {
    (void)Accepted(client.Put(random_.Below(Staying())));
    return true;
  }
  bool Read(Client& client) {
    if (!client.Read(random_.Below(Staying()))) Fail("read", "a key is lost");
    return true;
  }

  // Counts a refusal; any other failure ends the run.
  bool Accepted(Outcome outcome) {
    if (outcome == Outcome::kPoolFull) ++refused_;
    if (outcome != Outcome::kOk && outcome != Outcome::kPoolFull) Fail("write", "it failed");
    return outcome == Outcome::kOk;
  }
  void Fail(const std::string& where, const std::string& what) {
    status_ =
        absl::DataLossError(absl::StrCat(subject_.engine, ", full pool, ", where, ": ", what));
  }

  uint64_t Staying() const { return options_.keys / 2; }

  const BenchOptions& options_;
  const Subject& subject_;
  EngineTarget& target_;
  workload::Random random_;
  absl::Status status_;
  std::vector<FullStageResult> stages_;
  uint64_t next_ = 0;  // index of the next new key
  uint64_t refused_ = 0;
  std::deque<uint64_t> come_and_go_;
};

}  // namespace

absl::StatusOr<std::vector<FullStageResult>> MeasureFullPool(const BenchOptions& options,
                                                             const Subject& subject,
                                                             const std::string& pool_path) {
  // Keys are small numbers if their shape requires it. One takes at least 16 bytes of the pool.
  const uint64_t most = options.store.pool_size_bytes / 16 + 4 * options.ops + options.keys;
  auto target = EngineTarget::Create(subject, options.store, pool_path, options.seed, most);
  if (!target.ok()) return target.status();
  auto result = FullPool(options, subject, **target).Run();
  const absl::Status closed = CloseOwnPool(**target, pool_path, options.keep_pool);
  if (result.ok() && !closed.ok()) result = closed;
  return result;
}

}  // namespace lodgekv::bench
