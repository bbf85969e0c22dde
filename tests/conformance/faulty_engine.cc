#include "tests/conformance/faulty_engine.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "index/registry.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kRarely = 500;

class FaultyEngine final : public Engine {
 public:
  FaultyEngine(std::unique_ptr<Engine> sound, Fault fault)
      : sound_(std::move(sound)), fault_(fault) {}

  [[nodiscard]] Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                              const WriteOptions& options) override {
    std::vector<WriteOp> changed(ops.begin(), ops.end());
    WriteOptions changed_options = options;
    for (WriteOp& op : changed) ChangeOp(op);
    if (Now(Fault::kAppliedIndexIsLost)) changed_options.applied_index = {};
    const Outcome outcome = sound_->Write(changed, results, changed_options);
    if (outcome != Outcome::kOk && options.atomic && fault_ == Fault::kRefusedGroupIsHalfApplied) {
      std::vector<WriteResult> ignored(ops.size());
      static_cast<void>(
          sound_->Write(ops, ignored, {.atomic = false, .now_unix_ms = options.now_unix_ms}));
    }
    for (WriteResult& result : results) {
      if (Now(Fault::kFoundIsWrong)) result.found = !result.found;
      if (result.version != 0 && Now(Fault::kVersionIsWrong)) ++result.version;
      if (result.version != 0 && fault_ == Fault::kVersionRepeats) result.version %= 97;
    }
    return outcome;
  }

  [[nodiscard]] Outcome Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
                             const ReadOptions& options) override {
    ReadOptions changed = options;
    if (fault_ == Fault::kExpiryIsIgnored) changed.now_unix_ms = 0;
    const Outcome outcome = sound_->Read(keys, results, changed);
    for (ReadResult& result : results) {
      if (!result.found && Now(Fault::kReadsAnAbsentKey)) result.found = true;
      if (result.found && Now(Fault::kReadsAnOldValue)) result.value = last_value_;
      if (result.found) last_value_ = result.value;
    }
    return outcome;
  }

  [[nodiscard]] Outcome Scan(const ScanOptions& options, ScanVisitor visitor) override {
    ScanOptions changed = options;
    if (Now(Fault::kScanIgnoresItsEnd, 50)) changed.end = {};
    if (Now(Fault::kScanIgnoresItsLimit, 50)) changed.limit = 0;
    if (Now(Fault::kReverseScanGoesForward, 50)) changed.reverse = false;
    return sound_->Scan(changed, [&](const ScanItem& item) {
      if (Now(Fault::kScanSkipsAKey)) return true;
      if (Now(Fault::kScanRepeatsAKey) && !visitor(item)) return false;
      return visitor(item);
    });
  }

  [[nodiscard]] uint64_t CountKeys() override {
    return sound_->CountKeys() + (Now(Fault::kCountIsOff, 10) ? 1 : 0);
  }

  [[nodiscard]] CheckReport Check() override {
    CheckReport report = sound_->Check();
    if (Now(Fault::kCheckFindsAProblem, 10)) {
      report.problem_count = 1;
      report.problems.emplace_back("made up");
    }
    return report;
  }

  [[nodiscard]] uint64_t AppliedIndex() const override { return sound_->AppliedIndex(); }
  void VisitCounters(CounterVisitor visitor) const override { sound_->VisitCounters(visitor); }
  [[nodiscard]] RecoveryState GetRecoveryState() const override {
    return sound_->GetRecoveryState();
  }
  [[nodiscard]] MemoryUse GetMemoryUse() const override { return sound_->GetMemoryUse(); }
  absl::Status Close() override { return sound_->Close(); }

 private:
  // Whether to make this mistake now: every `rarely`-th time that it is possible.
  bool Now(Fault fault, uint64_t rarely = kRarely) {
    return fault == fault_ && ++chances_ % rarely == 0;
  }

  void ChangeOp(WriteOp& op) {
    const bool put = op.kind == WriteKind::kPut;
    if (put && Now(Fault::kLosesAPut)) op.kind = WriteKind::kDelete;
    if (!put && Now(Fault::kLosesADelete)) {
      op.condition = Condition::kIfVersion;
      op.if_version = UINT64_MAX;
    }
    if (op.condition != Condition::kNone && Now(Fault::kConditionIsIgnored)) {
      op.condition = Condition::kNone;
    }
  }

  std::unique_ptr<Engine> sound_;
  const Fault fault_;
  uint64_t chances_ = 0;
  std::string last_value_ = "a value from before";
};

}  // namespace

std::string_view FaultName(Fault fault) {
  switch (fault) {
    case Fault::kLosesAPut: return "LosesAPut";
    case Fault::kLosesADelete: return "LosesADelete";
    case Fault::kReadsAnOldValue: return "ReadsAnOldValue";
    case Fault::kReadsAnAbsentKey: return "ReadsAnAbsentKey";
    case Fault::kScanSkipsAKey: return "ScanSkipsAKey";
    case Fault::kScanRepeatsAKey: return "ScanRepeatsAKey";
    case Fault::kScanIgnoresItsEnd: return "ScanIgnoresItsEnd";
    case Fault::kScanIgnoresItsLimit: return "ScanIgnoresItsLimit";
    case Fault::kReverseScanGoesForward: return "ReverseScanGoesForward";
    case Fault::kConditionIsIgnored: return "ConditionIsIgnored";
    case Fault::kFoundIsWrong: return "FoundIsWrong";
    case Fault::kVersionIsWrong: return "VersionIsWrong";
    case Fault::kVersionRepeats: return "VersionRepeats";
    case Fault::kExpiryIsIgnored: return "ExpiryIsIgnored";
    case Fault::kRefusedGroupIsHalfApplied: return "RefusedGroupIsHalfApplied";
    case Fault::kAppliedIndexIsLost: return "AppliedIndexIsLost";
    case Fault::kCountIsOff: return "CountIsOff";
    case Fault::kCheckFindsAProblem: return "CheckFindsAProblem";
  }
  return "Unknown";
}

std::ostream& operator<<(std::ostream& out, Fault fault) { return out << FaultName(fault); }

std::unique_ptr<Engine> MakeFaultyEngine(KeyFormat key_format, Fault fault) {
  const auto info = FindEngine("dram");
  if (!info.ok()) throw std::runtime_error(info.status().ToString());
  EngineContext context;
  context.key_format = key_format;
  auto sound = (*info)->create(context);
  if (!sound.ok()) throw std::runtime_error(sound.status().ToString());
  return std::make_unique<FaultyEngine>(*std::move(sound), fault);
}

}  // namespace lodgekv::test
