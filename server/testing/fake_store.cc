#include "server/testing/fake_store.h"

#include <utility>

#include "index/registry.h"

namespace lodgekv::server::testing {
namespace {

class FaultyEngine final : public Engine {
 public:
  FaultyEngine(std::unique_ptr<Engine> engine, std::shared_ptr<Faults> faults)
      : engine_(std::move(engine)), faults_(std::move(faults)) {}

  Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                const WriteOptions& options) override {
    if (faults_->on_write) faults_->on_write(ops.size());
    const Outcome fault = faults_->puts;
    if (fault == Outcome::kOk) return engine_->Write(ops, results, options);
    for (size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind == WriteKind::kPut) {
        results[i] = {.outcome = fault};
      } else {
        (void)engine_->Write(ops.subspan(i, 1), results.subspan(i, 1), options);
      }
    }
    return fault;
  }

  Outcome Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
               const ReadOptions& options) override {
    const bool is_long = keys.size() == 1 && options.most_value_bytes == UINT64_MAX;
    if (is_long && faults_->on_long_read) faults_->on_long_read();
    const Outcome fault = faults_->reads;
    if (fault == Outcome::kOk) return engine_->Read(keys, results, options);
    for (ReadResult& result : results) result.outcome = fault;
    return fault;
  }

  Outcome Scan(const ScanOptions& options, ScanVisitor visitor) override {
    const Outcome fault = faults_->reads;
    return fault == Outcome::kOk ? engine_->Scan(options, visitor) : fault;
  }

  uint64_t CountKeys() override { return engine_->CountKeys(); }
  CheckReport Check() override { return WithFault(engine_->Check()); }
  CheckReport CheckInPassing(CheckPause go_on) override {
    if (faults_->on_check) faults_->on_check();
    return go_on() ? WithFault(engine_->CheckInPassing(go_on)) : CheckReport{};
  }
  uint64_t AppliedIndex() const override { return engine_->AppliedIndex(); }
  void VisitCounters(CounterVisitor visitor) const override { engine_->VisitCounters(visitor); }
  RecoveryState GetRecoveryState() const override {
    return faults_->recovery ? faults_->recovery() : engine_->GetRecoveryState();
  }
  MemoryUse GetMemoryUse() const override { return engine_->GetMemoryUse(); }
  absl::Status Close() override { return engine_->Close(); }

 private:
  CheckReport WithFault(CheckReport report) const {
    if (faults_->reads == Outcome::kDataLoss) {
      report.problems = {"leaf 7: checksum"};
      report.problem_count = 1;
    }
    return report;
  }

  std::unique_ptr<Engine> engine_;
  std::shared_ptr<Faults> faults_;
};

class FakeStore final : public Store {
 public:
  FakeStore(std::unique_ptr<Engine> engine, const StoreOptions& options,
            std::shared_ptr<Faults> faults)
      : engine_(std::move(engine), faults), faults_(std::move(faults)) {
    info_.engine = options.engine;
    info_.key_format = options.key_format;
    info_.inline_pairs = options.inline_pairs;
    info_.pool_path = "/fake/pool";
    info_.pool_id = "00112233445566778899aabbccddeeff";
    info_.medium_class = "pmem-adr";
    info_.durability = "medium";
    info_.long_fences = faults_->long_fences;
    info_.durability_detail = "A test's word.";
    info_.media_version = 3;
    info_.recovery = {.clean = false, .leaves_scanned = 5, .keys = 7, .milliseconds = 1'250};
    if (!faults_->journal.has_value()) return;
    info_.medium_class = "file";
    info_.journal_path = "/fake/pool.journal";
    info_.journal_groups_replayed = 12;
    info_.journal_lines_replayed = 345;
    info_.journal_replay_ms = 1'500;
  }

  Engine& engine() override { return engine_; }
  const StoreInfo& info() const override { return info_; }
  SpaceUse GetSpaceUse() const override {
    return {.total_bytes = 100, .used_bytes = 60, .free_bytes = 30, .reserved_bytes = 10};
  }
  std::optional<JournalUse> GetJournalUse() const override { return faults_->journal; }
  absl::Status Close() override {
    faults_->closed = true;
    return faults_->close_status;
  }

 private:
  FaultyEngine engine_;
  std::shared_ptr<Faults> faults_;
  StoreInfo info_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenFakeStore(const StoreOptions& options,
                                                     std::shared_ptr<Faults> faults) {
  const auto info = FindEngine(options.engine);
  if (!info.ok()) return info.status();
  EngineContext context;
  context.key_format = options.key_format;
  context.inline_pairs = options.inline_pairs;
  auto engine = (*info)->create(context);
  if (!engine.ok()) return engine.status();
  return std::make_unique<FakeStore>(*std::move(engine), options, std::move(faults));
}

}  // namespace lodgekv::server::testing
