#include "tests/crash/lab/oracle.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/engine_calls.h"

namespace lodgekv::test {
namespace {

// The scan covers all keys. This many are also looked up, in rotation, besides those in flight.
constexpr size_t kReadsOfImage = 12;

std::string ShowValue(const Oracle::Value& value) {
  return absl::StrCat(Show(value.bytes), " version ", value.version, " expiry ",
                      value.expiry_unix_ms);
}

std::string ShowMaybe(const std::optional<Oracle::Value>& value) {
  return value.has_value() ? ShowValue(*value) : "nothing";
}

}  // namespace

// --- the step in flight ---

Oracle::MaybeValue Oracle::Lookup(std::string_view key) const {
  const auto it = state_.find(key);
  return it == state_.end() ? MaybeValue() : MaybeValue(it->second);
}

uint64_t Oracle::VersionOf(std::string_view key) const {
  const auto it = state_.find(key);
  return it == state_.end() ? 0 : it->second.version;
}

// The versions of puts are not predicted.
WriteResult Oracle::Predict(const StepOp& op, const MaybeValue& current) const {
  WriteResult result;
  const bool found = current.has_value();
  if (op.kind == WriteKind::kDelete || op.condition != Condition::kNone) result.found = found;
  const bool holds =
      op.condition == Condition::kNone || (op.condition == Condition::kIfAbsent && !found) ||
      (op.condition == Condition::kIfPresent && found) ||
      (op.condition == Condition::kIfVersion && found && current->version == op.if_version);
  if (holds) return result;
  result.outcome = Outcome::kConditionFailed;
  result.version = found ? current->version : 0;
  return result;
}

void Oracle::Begin(const Step& step) {
  atomic_ = step.atomic;
  last_version_before_ = last_version_;
  step_versions_.clear();
  applied_in_flight_ = 0;
  in_flight_.clear();
  bool all_hold = true;
  for (const StepOp& op : step.ops) {
    InFlight* known = FindInFlight(op.key);
    if (known == nullptr) {
      in_flight_.push_back({op.key, {Lookup(op.key)}, {}});
      known = &in_flight_.back();
    }
    const MaybeValue current = known->possible.back();
    if (Predict(op, current).outcome != Outcome::kOk) {
      all_hold = false;
    } else if (op.kind == WriteKind::kPut) {
      known->possible.push_back(Value{op.value, 0, op.expiry_unix_ms});
    } else {
      known->possible.push_back(MaybeValue());
    }
  }
  if (step.atomic && !all_hold) {
    in_flight_.clear();
  } else if (step.applied_index.has_value()) {
    applied_in_flight_ = *step.applied_index;
  }
}

Oracle::InFlight* Oracle::FindInFlight(std::string_view key) {
  for (InFlight& candidate : in_flight_) {
    if (candidate.key == key) return &candidate;
  }
  return nullptr;
}

// A version must be above all versions of earlier steps and above the key's last one. The
// operations of a group may take effect in any order that keeps the order of each key.
Oracle::Problem Oracle::CheckVersion(const StepOp& op, uint64_t version) {
  const uint64_t after = std::max(last_version_before_, VersionOf(op.key));
  if (version <= after) {
    return absl::StrCat("a put of ", Show(op.key), " got version ", version, " after version ",
                        after);
  }
  if (std::find(step_versions_.begin(), step_versions_.end(), version) != step_versions_.end()) {
    return absl::StrCat("two puts got version ", version);
  }
  step_versions_.push_back(version);
  last_version_ = std::max(last_version_, version);
  return {};
}

Oracle::Problem Oracle::CheckResult(const StepOp& op, const WriteResult& predicted,
                                    const WriteResult& result) {
  const bool put = op.kind == WriteKind::kPut && result.outcome == Outcome::kOk;
  const bool versioned = put && case_.has_versions();
  if (versioned) {
    if (Problem problem = CheckVersion(op, result.version)) return problem;
  }
  if (result.outcome == predicted.outcome && result.found == predicted.found &&
      (versioned || result.version == predicted.version)) {
    return {};
  }
  return absl::StrCat("a wrong answer for key ", Show(op.key), ": outcome ",
                      static_cast<int>(result.outcome), " found ", result.found, " version ",
                      result.version, ", right is outcome ", static_cast<int>(predicted.outcome),
                      " found ", predicted.found, " version ", predicted.version);
}

void Oracle::Apply(const StepOp& op, uint64_t version) {
  if (op.kind == WriteKind::kPut) {
    state_[op.key] = {op.value, version, op.expiry_unix_ms};
  } else {
    state_.erase(op.key);
  }
}

// An operation for which the pool was full has not taken effect, whatever was predicted.
Oracle::Problem Oracle::Finish(const Step& step, const std::vector<WriteResult>& results) {
  const bool full = std::any_of(results.begin(), results.end(), [](const WriteResult& result) {
    return result.outcome == Outcome::kPoolFull;
  });
  std::vector<WriteResult> predicted;
  bool all_hold = true;
  for (size_t i = 0; i < step.ops.size(); ++i) {
    predicted.push_back(Predict(step.ops[i], Lookup(step.ops[i].key)));
    all_hold &= predicted.back().outcome == Outcome::kOk;
    if (step.atomic || results[i].outcome == Outcome::kPoolFull) continue;
    if (Problem problem = CheckResult(step.ops[i], predicted[i], results[i])) return problem;
    if (results[i].outcome == Outcome::kOk) Apply(step.ops[i], results[i].version);
  }
  if (step.atomic && !full) {
    for (size_t i = 0; i < step.ops.size(); ++i) {
      if (!all_hold && predicted[i].outcome == Outcome::kOk)
        predicted[i] = {Outcome::kAborted, false, 0};
      if (Problem problem = CheckResult(step.ops[i], predicted[i], results[i])) return problem;
      if (all_hold) Apply(step.ops[i], results[i].version);
    }
    if (all_hold && step.applied_index.has_value()) applied_index_ = *step.applied_index;
  }
  in_flight_.clear();
  applied_in_flight_ = 0;
  return {};
}

// --- an image ---

bool Oracle::Same(const Value& a, const Value& b, bool in_flight) const {
  if (a.bytes != b.bytes || a.expiry_unix_ms != b.expiry_unix_ms) return false;
  return a.version == b.version ||
         (in_flight && (b.version > last_version_ || !case_.has_versions()));
}

Oracle::Problem Oracle::CheckGone(std::string_view key, const Value& value) {
  if (FindInFlight(key) != nullptr) return {};  // CheckInFlight decides
  return absl::StrCat("key ", Show(key), " is lost: it was acknowledged with ", ShowValue(value));
}

Oracle::Problem Oracle::CheckItem(const ScanItem& item, State::const_iterator* next) {
  ++keys_found_;
  while (*next != state_.end() && (*next)->first < item.key) {
    if (Problem problem = CheckGone((*next)->first, (*next)->second)) return problem;
    ++*next;
  }
  const bool known = *next != state_.end() && (*next)->first == item.key;
  const Value value{std::string(item.value), item.version, item.expiry_unix_ms};
  if (InFlight* in_flight = FindInFlight(item.key)) {
    in_flight->found = value;
  } else if (!known) {
    return absl::StrCat("key ", Show(item.key), " is there with ", ShowValue(value),
                        ", it must be absent");
  } else if (!Same((*next)->second, value, false)) {
    return absl::StrCat("key ", Show(item.key), " has ", ShowValue(value), ", acknowledged is ",
                        ShowValue((*next)->second));
  }
  if (known) ++*next;
  return {};
}

// Whether each key of the step is as before it (or as after it).
bool Oracle::AllAre(bool done) const {
  return std::all_of(in_flight_.begin(), in_flight_.end(), [&](const InFlight& key) {
    const MaybeValue& wanted = done ? key.possible.back() : key.possible.front();
    if (wanted.has_value() != key.found.has_value()) return false;
    return !wanted.has_value() || Same(*wanted, *key.found, done);
  });
}

Oracle::Problem Oracle::CheckInFlight() {
  for (const InFlight& key : in_flight_) {
    const bool possible =
        std::any_of(key.possible.begin(), key.possible.end(), [&](const MaybeValue& value) {
          if (value.has_value() != key.found.has_value()) return false;
          return !value.has_value() || Same(*value, *key.found, &value != &key.possible.front());
        });
    if (possible) continue;
    const auto shown = absl::StrJoin(key.possible, " or ", [](std::string* out, const auto& value) {
      absl::StrAppend(out, ShowMaybe(value));
    });
    return absl::StrCat("key ", Show(key.key), ", in flight, has ", ShowMaybe(key.found),
                        ", possible is ", shown);
  }
  if (atomic_ && !in_flight_.empty() && !AllAre(false) && !AllAre(true)) {
    return std::string("of an atomic group in flight some keys are new and some are old");
  }
  return {};
}

Oracle::Problem Oracle::CheckApplied(const Engine& engine) {
  applied_found_ = engine.AppliedIndex();
  const bool before = applied_found_ == applied_index_;
  const bool after = applied_in_flight_ != 0 && applied_found_ == applied_in_flight_;
  if (!before && !after) {
    return absl::StrCat("applied index ", applied_found_, ", acknowledged is ", applied_index_,
                        ", in flight ", applied_in_flight_);
  }
  if (applied_in_flight_ != 0 && !AllAre(after)) {
    return absl::StrCat("applied index ", applied_found_, " and the batch that brings ",
                        applied_in_flight_, " do not fit together");
  }
  return {};
}

Oracle::Problem Oracle::CheckReads(Engine& engine, const std::vector<std::string>& keys) {
  read_keys_.clear();
  for (const InFlight& key : in_flight_) read_keys_.push_back(key.key);
  for (size_t i = 0; i < std::min(keys.size(), kReadsOfImage); ++i) {
    read_keys_.push_back(keys[next_read_++ % keys.size()]);
  }
  reads_.resize(read_keys_.size());
  const Outcome outcome = engine.Read(read_keys_, reads_, {kRunNow});
  if (outcome != Outcome::kOk) {
    return absl::StrCat("a read ends with outcome ", static_cast<int>(outcome));
  }
  for (size_t i = 0; i < read_keys_.size(); ++i) {
    const InFlight* in_flight = FindInFlight(read_keys_[i]);
    const auto it = in_flight == nullptr ? state_.find(read_keys_[i]) : state_.end();
    const Value* wanted = it != state_.end() ? &it->second : nullptr;
    if (in_flight != nullptr && in_flight->found.has_value()) wanted = &*in_flight->found;
    const ReadResult& read = reads_[i];
    const Value got{read.value, read.version, read.expiry_unix_ms};
    if (read.found == (wanted != nullptr) && (!read.found || Same(*wanted, got, false))) continue;
    return absl::StrCat("a read of key ", Show(read_keys_[i]), " finds ",
                        read.found ? ShowValue(got) : "nothing", ", the scan found ",
                        wanted == nullptr ? "nothing" : ShowValue(*wanted));
  }
  return {};
}

Oracle::Problem Oracle::CheckStructure(Engine& engine) {
  const CheckReport report = engine.Check();
  if (report.problem_count > 0) {
    return absl::StrCat("Check finds ", report.problem_count, " problems, first: ",
                        report.problems.empty() ? "?" : report.problems.front());
  }
  if (report.keys == keys_found_) return {};
  return absl::StrCat("Check counts ", report.keys, " keys, a scan ", keys_found_);
}

Oracle::Problem Oracle::Compare(Engine& engine, const std::vector<std::string>& keys) {
  Problem problem;
  keys_found_ = 0;
  for (InFlight& key : in_flight_) key.found.reset();
  State::const_iterator next = state_.begin();
  ScanOptions options;
  options.now_unix_ms = kRunNow;
  std::string last;
  const Outcome outcome = engine.Scan(options, [&](const ScanItem& item) {
    if (keys_found_ > 0 && item.key <= last) problem = "a scan is out of order";
    last.assign(item.key);
    if (!problem) problem = CheckItem(item, &next);
    return !problem.has_value();
  });
  if (problem) return problem;
  if (outcome != Outcome::kOk) {
    return absl::StrCat("a scan ends with outcome ", static_cast<int>(outcome));
  }
  for (; next != state_.end(); ++next) {
    if ((problem = CheckGone(next->first, next->second))) return problem;
  }
  if ((problem = CheckInFlight())) return problem;
  if ((problem = CheckApplied(engine))) return problem;
  if ((problem = CheckReads(engine, keys))) return problem;
  return CheckStructure(engine);
}

Oracle::Problem Oracle::CompareInFlight(Engine& engine) {
  for (InFlight& key : in_flight_) {
    ReadResult read;
    const Outcome outcome = engine.Read({&key.key, 1}, {&read, 1}, {kRunNow});
    if (outcome != Outcome::kOk) {
      return absl::StrCat("a read ends with outcome ", static_cast<int>(outcome));
    }
    key.found.reset();
    if (read.found) key.found = Value{read.value, read.version, read.expiry_unix_ms};
  }
  if (Problem problem = CheckInFlight()) return problem;
  return CheckApplied(engine);
}

void Oracle::Adopt() {
  for (const InFlight& key : in_flight_) {
    if (!key.found.has_value()) {
      state_.erase(std::string(key.key));
      continue;
    }
    state_[std::string(key.key)] = *key.found;
    last_version_ = std::max(last_version_, key.found->version);
  }
  applied_index_ = applied_found_;
  in_flight_.clear();
  applied_in_flight_ = 0;
}

}  // namespace lodgekv::test
