#include "tests/conformance/model_runner.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "index/registry.h"

namespace lodgekv::test {
namespace {

// No value has it, and no engine reaches it.
constexpr uint64_t kNobodysVersion = uint64_t{1} << 51;

std::unique_ptr<Engine> MakeOracle(const EngineCase& engine_case) {
  const auto info = FindEngine("dram");
  if (!info.ok()) throw std::runtime_error(info.status().ToString());
  EngineContext context;
  context.key_format = engine_case.key_format;
  context.inline_pairs = engine_case.inline_pairs;
  auto engine = (*info)->create(context);
  if (!engine.ok()) throw std::runtime_error(engine.status().ToString());
  return *std::move(engine);
}

std::string Title(const EngineCase& engine_case, const KeyFamily& family, const Mix& mix) {
  std::ostringstream title;
  title << engine_case << ", keys " << family.name << ", mix " << mix.name;
  return std::move(title).str();
}

std::string Describe(const WriteOp& op) {
  std::ostringstream out;
  out << (op.kind == WriteKind::kPut ? "put " : "delete ") << Show(op.key);
  if (op.kind == WriteKind::kPut) out << " = " << Show(op.value);
  switch (op.condition) {
    case Condition::kNone: break;
    case Condition::kIfAbsent: out << " if absent"; break;
    case Condition::kIfPresent: out << " if present"; break;
    case Condition::kIfVersion: out << " if version " << op.if_version; break;
  }
  if (op.expiry_unix_ms != 0) out << " until " << op.expiry_unix_ms;
  return std::move(out).str();
}

template <class T>
std::string Differs(std::string_view what, const T& expected, const T& actual) {
  std::ostringstream out;
  out << what << " is " << actual << ", should be " << expected;
  return std::move(out).str();
}

Outcome FirstOther(const std::vector<WriteResult>& results) {
  for (const WriteResult& result : results) {
    if (result.outcome != Outcome::kOk) return result.outcome;
  }
  return Outcome::kOk;
}

}  // namespace

ModelRunner::ModelRunner(ModelSubject subject, const KeyFamily& family, const Mix& mix,
                         const ModelPlan& plan, uint64_t stream)
    : subject_(std::move(subject)),
      title_(Title(subject_.engine_case, family, mix)),
      plan_(plan),
      workload_(subject_.engine_case, family, mix, stream),
      oracle_(MakeOracle(subject_.engine_case)),
      engine_versions_(1, 0),
      stale_versions_(workload_.key_count(), 0) {}

std::optional<std::string> ModelRunner::Run() {
  uint64_t next_compare = plan_.compare_every;
  uint64_t next_reopen = plan_.reopen_every;
  Difference difference;
  while (!difference && done_ < plan_.operations) {
    now_unix_ms_ += workload_.random().Below(20);
    const uint64_t dice = workload_.random().Below(100);
    difference = dice < 70 ? WriteStep() : dice < 97 ? ReadStep() : ScanStep();
    if (!difference && done_ >= next_compare) {
      difference = CompareAll();
      next_compare += plan_.compare_every;
    }
    if (!difference && done_ >= next_reopen && subject_.reopen) {
      difference = Reopen();
      next_reopen += plan_.reopen_every;
    }
  }
  if (!difference) difference = CompareAll();
  if (!difference && subject_.reopen) difference = Reopen();
  if (!difference) return std::nullopt;
  return title_ + ", after " + std::to_string(done_) + " operations: " + *difference;
}

uint64_t ModelRunner::EngineVersion(uint64_t oracle_version) const {
  return oracle_version == kNobodysVersion ? kNobodysVersion : engine_versions_[oracle_version];
}

ModelRunner::Difference ModelRunner::LearnVersion(const WriteOp& op, uint64_t oracle_version,
                                                  uint64_t engine_version) {
  if ((engine_version != 0) != subject_.engine_case.has_versions()) {
    return "version " + std::to_string(engine_version) + " of a new value in this key format";
  }
  if (oracle_version == 0) return std::nullopt;
  if (oracle_version >= engine_versions_.size()) engine_versions_.resize(oracle_version + 1);
  engine_versions_[oracle_version] = engine_version;
  const uint64_t key_hash = std::hash<std::string_view>()(op.key);
  if (used_versions_.insert(key_hash ^ MixBits(engine_version)).second) return std::nullopt;
  return "version " + std::to_string(engine_version) + " of this key came before";
}

// The condition names the current version, or one that the key had before.
void ModelRunner::ChooseVersions(const WorkGroup& group, std::vector<WriteOp>& oracle_ops,
                                 std::vector<WriteOp>& engine_ops) {
  for (size_t i = 0; i < group.ops.size(); ++i) {
    if (group.ops[i].condition != Condition::kIfVersion) continue;
    uint64_t& stale = stale_versions_[group.keys[i]];
    uint64_t version = stale;
    if (!workload_.random().OneIn(4)) {
      version = Get(*oracle_, group.ops[i].key, now_unix_ms_).version;
      if (version != 0) stale = version;
    }
    if (version == 0) version = kNobodysVersion;
    oracle_ops[i].if_version = version;
    engine_ops[i].if_version = EngineVersion(version);
  }
}

ModelRunner::Difference ModelRunner::WriteStep() {
  const WorkGroup group = workload_.NextGroup(now_unix_ms_);
  std::vector<WriteOp> oracle_ops = group.ops;
  std::vector<WriteOp> engine_ops = group.ops;
  ChooseVersions(group, oracle_ops, engine_ops);
  std::vector<WriteResult> expected(oracle_ops.size());
  std::vector<WriteResult> actual(engine_ops.size(), {Outcome::kDataLoss, true, 1});
  const Outcome expected_outcome = oracle_->Write(oracle_ops, expected, group.options);
  const Outcome outcome = subject_.engine().Write(engine_ops, actual, group.options);
  done_ += group.ops.size();
  if (outcome != FirstOther(actual)) {
    return Differs("outcome of a group", FirstOther(actual), outcome);
  }
  if ((outcome == Outcome::kOk) != (expected_outcome == Outcome::kOk)) {
    return Differs("outcome of a group", expected_outcome, outcome);
  }
  if (group.options.atomic && outcome != Outcome::kOk) {
    return CompareRefusedGroup(group, expected, actual);
  }
  Difference difference = CompareGroup(group, expected, actual);
  if (!difference && group.options.applied_index) difference = CompareAppliedIndex();
  return difference;
}

ModelRunner::Difference ModelRunner::CompareGroup(const WorkGroup& group,
                                                  const std::vector<WriteResult>& expected,
                                                  const std::vector<WriteResult>& actual) {
  for (size_t i = 0; i < group.ops.size(); ++i) {
    const Difference difference = CompareResult(group.ops[i], expected[i], actual[i]);
    if (!difference) continue;
    return "operation " + std::to_string(i + 1) + " of " + std::to_string(group.ops.size()) +
           (group.options.atomic ? " (atomic), " : ", ") + Describe(group.ops[i]) + ": " +
           *difference;
  }
  return std::nullopt;
}

// An engine may give each operation its own error, or some of them kAborted.
ModelRunner::Difference ModelRunner::CompareRefusedGroup(const WorkGroup& group,
                                                         const std::vector<WriteResult>& expected,
                                                         const std::vector<WriteResult>& actual) {
  const auto refused_for = [&](Outcome why) {
    return std::any_of(expected.begin(), expected.end(),
                       [why](const WriteResult& result) { return result.outcome == why; });
  };
  bool reason_given = false;
  for (size_t i = 0; i < group.ops.size(); ++i) {
    const Outcome outcome = actual[i].outcome;
    if (outcome == Outcome::kAborted) continue;
    reason_given = true;
    if (outcome == Outcome::kInvalidArgument && refused_for(outcome)) continue;
    Difference difference = CompareResult(group.ops[i], expected[i], actual[i]);
    if (outcome == Outcome::kOk) difference = "kOk in an atomic group that was refused";
    if (difference) return "atomic group, " + Describe(group.ops[i]) + ": " + *difference;
  }
  if (reason_given) return std::nullopt;
  return "a refused atomic group gives no reason: every outcome is kAborted";
}

ModelRunner::Difference ModelRunner::CompareResult(const WriteOp& op, const WriteResult& expected,
                                                   const WriteResult& actual) {
  if (actual.outcome != expected.outcome) {
    return Differs("outcome", expected.outcome, actual.outcome);
  }
  const bool tells = op.kind == WriteKind::kDelete || op.condition != Condition::kNone;
  if (tells && actual.found != expected.found) {
    return Differs("found", expected.found, actual.found);
  }
  if (expected.outcome == Outcome::kOk && op.kind == WriteKind::kPut) {
    return LearnVersion(op, expected.version, actual.version);
  }
  if (actual.version != EngineVersion(expected.version)) {
    return Differs("version", EngineVersion(expected.version), actual.version);
  }
  return std::nullopt;
}

ModelRunner::Difference ModelRunner::ReadStep() {
  const size_t count = workload_.random().OneIn(2) ? 1 : workload_.random().Between(2, 64);
  std::vector<std::string_view> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(workload_.Key(workload_.NextKey()));
  std::vector<ReadResult> expected(count);
  std::vector<ReadResult> actual(count);
  const Outcome outcome = subject_.engine().Read(keys, actual, {.now_unix_ms = now_unix_ms_});
  if (outcome != oracle_->Read(keys, expected, {.now_unix_ms = now_unix_ms_})) {
    return Differs("outcome of a read", Outcome::kOk, outcome);
  }
  done_ += count;
  for (size_t i = 0; i < count; ++i) {
    const std::string where = "read of " + Show(keys[i]) + ": ";
    if (actual[i].found != expected[i].found) {
      return where + Differs("found", expected[i].found, actual[i].found);
    }
    if (!expected[i].found) continue;
    if (actual[i].value != expected[i].value) {
      return where + Differs("value", Show(expected[i].value), Show(actual[i].value));
    }
    if (actual[i].version != EngineVersion(expected[i].version)) {
      return where + Differs("version", EngineVersion(expected[i].version), actual[i].version);
    }
    if (actual[i].expiry_unix_ms != expected[i].expiry_unix_ms) {
      return where + Differs("expiry", expected[i].expiry_unix_ms, actual[i].expiry_unix_ms);
    }
  }
  return std::nullopt;
}

ModelRunner::Difference ModelRunner::ScanStep() {
  Random& random = workload_.random();
  std::string start = workload_.Key(random.Below(workload_.key_count()));
  std::string end = workload_.Key(random.Below(workload_.key_count()));
  if (random.OneIn(4)) start.resize(random.Below(start.size() + 1));
  if (random.OneIn(4)) end.push_back('\0');
  ScanOptions options;
  options.start = start;
  if (random.OneIn(2)) options.end = end;
  options.reverse = random.OneIn(2);
  options.keys_only = random.OneIn(4);
  options.limit = random.OneIn(8) ? 0 : random.Between(1, 200);
  options.now_unix_ms = now_unix_ms_;
  ++done_;
  return CompareScans(options);
}

ModelRunner::Difference ModelRunner::CompareScans(const ScanOptions& options) {
  const std::vector<Pair> expected = ScanAll(*oracle_, options);
  const std::string where = options.reverse ? "reverse scan from " : "scan from ";
  Difference difference;
  size_t at = 0;
  const Outcome outcome = subject_.engine().Scan(options, [&](const ScanItem& item) {
    if (at == expected.size()) {
      difference = "visits " + Show(item.key) + " after the last key";
    } else if (const Pair& pair = expected[at]; item.key != pair.key) {
      difference = Differs("key", Show(pair.key), Show(item.key));
    } else if (item.value != pair.value) {
      difference = Differs("value", Show(pair.value), Show(item.value));
    } else if (item.version != EngineVersion(pair.version)) {
      difference = Differs("version", EngineVersion(pair.version), item.version);
    } else if (item.expiry_unix_ms != pair.expiry_unix_ms) {
      difference = Differs("expiry", pair.expiry_unix_ms, item.expiry_unix_ms);
    }
    ++at;
    return !difference.has_value();
  });
  if (!difference && outcome != Outcome::kOk) {
    difference = Differs("outcome", Outcome::kOk, outcome);
  }
  if (!difference && at != expected.size()) {
    difference = "ends before " + Show(expected[at].key);
  }
  if (!difference) return std::nullopt;
  return where + Show(options.start) + ", item " + std::to_string(at) + " of " +
         std::to_string(expected.size()) + ": " + *difference;
}

ModelRunner::Difference ModelRunner::CompareCheck() {
  const uint64_t keys = oracle_->CountKeys();
  if (const uint64_t count = subject_.engine().CountKeys(); count != keys) {
    return Differs("CountKeys", keys, count);
  }
  const CheckReport report = subject_.engine().Check();
  if (report.problem_count != 0) {
    return "Check: " + (report.problems.empty() ? "unnamed problems" : report.problems.front());
  }
  if (report.keys != keys) return Differs("Check's number of keys", keys, report.keys);
  return CompareAppliedIndex();
}

ModelRunner::Difference ModelRunner::CompareAppliedIndex() {
  const uint64_t expected = oracle_->AppliedIndex();
  const uint64_t actual = subject_.engine().AppliedIndex();
  if (actual == expected) return std::nullopt;
  return Differs("AppliedIndex", expected, actual);
}

ModelRunner::Difference ModelRunner::CompareAll() {
  Difference difference = CompareCheck();
  // At time zero, so that expired values are compared too.
  for (const bool reverse : {false, true}) {
    if (!difference) difference = CompareScans({.reverse = reverse});
    if (!difference) difference = CompareScans({.reverse = reverse, .now_unix_ms = now_unix_ms_});
  }
  return difference;
}

ModelRunner::Difference ModelRunner::Reopen() {
  const bool clean = std::exchange(next_reopen_clean_, !next_reopen_clean_);
  const std::string how = clean ? "reopened after a close: " : "recovered after a kill: ";
  if (const absl::Status status = subject_.reopen(clean); !status.ok()) {
    return how + status.ToString();
  }
  Difference difference = CompareAll();
  if (!difference) return std::nullopt;
  return how + *difference;
}

}  // namespace lodgekv::test
