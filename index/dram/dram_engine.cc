#include "index/dram/dram_engine.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "index/engine_info.h"

namespace lodgekv::dram {
namespace {

constexpr size_t kMaxKeyBytes = 65'535;
constexpr size_t kMaxValueBytes = size_t{16} << 20;
constexpr size_t kFixedBytes = 8;
// A node of the map: two strings, the numbers, the tree's colour and three pointers.
constexpr uint64_t kNodeBytes = sizeof(std::pair<const std::string, Value>) + 32;
constexpr size_t kMaxProblems = 100;

template <class Results>
Outcome FirstOther(const Results& results) {
  for (const auto& result : results) {
    if (result.outcome != Outcome::kOk) return result.outcome;
  }
  return Outcome::kOk;
}

}  // namespace

bool Format::KeyFits(std::string_view key) const {
  if (key_format == KeyFormat::kFixed64) return key.size() == kFixedBytes;
  return !key.empty() && key.size() <= kMaxKeyBytes;
}

bool Format::ValueFits(std::string_view value) const {
  if (key_format == KeyFormat::kFixed64) return value.size() == kFixedBytes;
  return value.size() <= kMaxValueBytes;
}

bool Format::Allows(const WriteOp& op) const {
  if (!KeyFits(op.key)) return false;
  if (op.condition == Condition::kIfVersion && (!versions || op.if_version == 0)) return false;
  if (op.kind == WriteKind::kDelete) return true;
  return ValueFits(op.value) && (versions || op.expiry_unix_ms == 0);
}

Outcome DramEngine::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                          const WriteOptions& options) {
  for (size_t i = 0; i < ops.size(); ++i) {
    results[i] = {};
    if (!format_.Allows(ops[i])) results[i].outcome = Outcome::kInvalidArgument;
  }
  return options.atomic ? WriteAtomic(ops, results, options) : WriteGroup(ops, results, options);
}

Outcome DramEngine::WriteGroup(std::span<const WriteOp> ops, std::span<WriteResult> results,
                               const WriteOptions& options) {
  const std::unique_lock lock(mutex_);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (results[i].outcome != Outcome::kOk) continue;
    TestCondition(ops[i], options.now_unix_ms, results[i]);
    if (results[i].outcome == Outcome::kOk) {
      Apply(ops[i], results[i]);
    } else {
      ++conditions_failed_;
    }
  }
  return FirstOther(results);
}

Outcome DramEngine::WriteAtomic(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                const WriteOptions& options) {
  std::unordered_set<std::string_view> keys;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!keys.insert(ops[i].key).second) results[i].outcome = Outcome::kInvalidArgument;
  }
  const std::unique_lock lock(mutex_);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (results[i].outcome == Outcome::kOk) TestCondition(ops[i], options.now_unix_ms, results[i]);
  }
  if (FirstOther(results) != Outcome::kOk) {
    ++groups_aborted_;
    for (WriteResult& result : results) {
      if (result.outcome == Outcome::kOk) result = {.outcome = Outcome::kAborted};
    }
    return FirstOther(results);
  }
  for (size_t i = 0; i < ops.size(); ++i) Apply(ops[i], results[i]);
  if (options.applied_index) applied_index_ = std::max(applied_index_, *options.applied_index);
  return Outcome::kOk;
}

void DramEngine::TestCondition(const WriteOp& op, uint64_t now_unix_ms, WriteResult& result) const {
  if (op.kind == WriteKind::kPut && op.condition == Condition::kNone) return;
  const auto it = map_.find(op.key);
  const Value* live = it != map_.end() && it->second.LiveAt(now_unix_ms) ? &it->second : nullptr;
  result.found = live != nullptr;
  bool holds = true;
  switch (op.condition) {
    case Condition::kNone: break;
    case Condition::kIfAbsent: holds = live == nullptr; break;
    case Condition::kIfPresent: holds = live != nullptr; break;
    case Condition::kIfVersion: holds = live != nullptr && live->version == op.if_version; break;
  }
  if (holds) return;
  result.outcome = Outcome::kConditionFailed;
  result.version = live == nullptr ? 0 : live->version;
}

void DramEngine::Apply(const WriteOp& op, WriteResult& result) {
  const auto it = map_.find(op.key);
  if (it != map_.end()) bytes_ -= it->first.size() + it->second.bytes.size();
  if (op.kind == WriteKind::kDelete) {
    ++deletes_;
    if (it != map_.end()) map_.erase(it);
    return;
  }
  ++puts_;
  bytes_ += op.key.size() + op.value.size();
  Value value{std::string(op.value), format_.versions ? next_version_++ : 0, op.expiry_unix_ms};
  result.version = value.version;
  if (it != map_.end()) {
    it->second = std::move(value);
  } else {
    map_.emplace(op.key, std::move(value));
  }
}

Outcome DramEngine::Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
                         const ReadOptions& options) {
  const std::shared_lock lock(mutex_);
  for (size_t i = 0; i < keys.size(); ++i) {
    ReadResult& result = results[i];
    result.outcome = format_.KeyFits(keys[i]) ? Outcome::kOk : Outcome::kInvalidArgument;
    const auto it = result.outcome == Outcome::kOk ? map_.find(keys[i]) : map_.end();
    result.found = it != map_.end() && it->second.LiveAt(options.now_unix_ms);
    result.version = result.found ? it->second.version : 0;
    result.expiry_unix_ms = result.found ? it->second.expiry_unix_ms : 0;
    result.left_out = result.found && it->second.bytes.size() > options.most_value_bytes;
    if (result.found && !result.left_out) result.value.assign(it->second.bytes);
  }
  return FirstOther(results);
}

uint64_t DramEngine::CountKeys() {
  const std::shared_lock lock(mutex_);
  return map_.size();
}

CheckReport DramEngine::Check() {
  const std::shared_lock lock(mutex_);
  CheckReport report;
  const auto add_problem = [&report](std::string problem) {
    ++report.problem_count;
    if (report.problems.size() < kMaxProblems) report.problems.push_back(std::move(problem));
  };
  uint64_t bytes = 0;
  for (const auto& [key, value] : map_) {
    ++report.keys;
    bytes += key.size() + value.bytes.size();
    if (!format_.KeyFits(key)) {
      add_problem(absl::StrCat("key ", report.keys, " has ", key.size(), " bytes"));
    }
    if (!format_.ValueFits(value.bytes)) {
      add_problem(absl::StrCat("value ", report.keys, " has ", value.bytes.size(), " bytes"));
    }
    if ((value.version != 0) != format_.versions || value.version >= next_version_) {
      add_problem(absl::StrCat("value ", report.keys, " has version ", value.version));
    }
  }
  if (bytes != bytes_) {
    add_problem(absl::StrCat("keys and values have ", bytes, " bytes, counted were ", bytes_));
  }
  return report;
}

uint64_t DramEngine::AppliedIndex() const {
  const std::shared_lock lock(mutex_);
  return applied_index_;
}

void DramEngine::VisitCounters(CounterVisitor visitor) const {
  std::shared_lock lock(mutex_);
  const CounterSample samples[] = {
      {"puts_total", "Puts applied", CounterKind::kCounter, static_cast<double>(puts_)},
      {"deletes_total", "Deletes applied", CounterKind::kCounter, static_cast<double>(deletes_)},
      {"conditions_failed_total", "Operations outside atomic groups whose condition did not hold",
       CounterKind::kCounter, static_cast<double>(conditions_failed_)},
      {"groups_aborted_total", "Atomic groups that were not applied", CounterKind::kCounter,
       static_cast<double>(groups_aborted_)},
      {"keys", "Keys held, expired ones included", CounterKind::kGauge,
       static_cast<double>(map_.size())},
      {"key_value_bytes", "Bytes of all keys and values", CounterKind::kGauge,
       static_cast<double>(bytes_)},
  };
  lock.unlock();
  for (const CounterSample& sample : samples) visitor(sample);
}

MemoryUse DramEngine::GetMemoryUse() const {
  const std::shared_lock lock(mutex_);
  return {.medium_bytes = 0, .dram_bytes = map_.size() * kNodeBytes + bytes_};
}

absl::Status DramEngine::Close() {
  map_.clear();
  bytes_ = 0;
  return absl::OkStatus();
}

namespace {

absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineContext& context) {
  if (context.inline_pairs && context.key_format != KeyFormat::kBytes) {
    return absl::InvalidArgumentError(
        "inline_pairs is for key format bytes; a fixed64 pool holds every pair in its slot anyway");
  }
  const Format format{
      .key_format = context.key_format,
      .versions = context.key_format == KeyFormat::kBytes && !context.inline_pairs,
  };
  return std::make_unique<DramEngine>(format);
}

constexpr EngineInfo kInfo = {
    .name = "dram",
    .summary = "std::map in memory, for tests and comparison; loses everything at exit",
    .paper = "",
    .persistent = false,
    .options = {},
    .create = Create,
};

}  // namespace

const EngineInfo& GetEngineInfo();
const EngineInfo& GetEngineInfo() { return kInfo; }

}  // namespace lodgekv::dram
