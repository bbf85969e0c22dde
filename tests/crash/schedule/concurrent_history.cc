#include "tests/crash/schedule/concurrent_history.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "tests/crash/schedule/scheduler.h"
#include "tests/support/engine_calls.h"

namespace lodgekv::test {
namespace {

// Numbers of values: one that nobody writes, and the value of a version that nothing has.
constexpr uint64_t kUnknown = uint64_t{1} << 62;
constexpr uint64_t kNone = kUnknown + 1;

std::string ShowNumber(uint64_t number, const std::vector<std::string>& values) {
  if (number == kAbsent) return "nothing";
  return number < values.size() ? absl::StrCat("value ", number, " (", Show(values[number]), ")")
                                : "a value that nobody wrote";
}

}  // namespace

ConcurrentHistory::ConcurrentHistory(const EngineCase& engine_case, const Program& program,
                                     Engine& engine)
    : case_(engine_case), hot_(program.hot), flights_(Scheduler::kMaxThreads) {
  for (const Pair& pair : ScanAll(engine, {.now_unix_ms = kRunNow})) {
    if (IndexOf(pair.key) < hot_.size()) {
      NumberValue(pair.value);
    } else {
      others_[pair.key] = {pair.value, pair.version};
    }
  }
  NumberValues(program.before);
  NumberValues(program.threads);
  for (const ThreadCalls& calls : program.after) NumberValues(calls);
  tree_ = Observe(engine);
  tree_versions_.assign(values_.size(), 0);
  for (size_t key = 0; key < hot_.size(); ++key) {
    tree_versions_[tree_.values[key]] = tree_.versions[key];
  }
  tree_versions_[kAbsent] = 0;
  Restart();
}

void ConcurrentHistory::NumberValues(const ThreadCalls& calls) {
  for (const auto& of_thread : calls) {
    for (const Call& call : of_thread) {
      for (const StepOp& op : call.step.ops) NumberValue(op.value);
    }
  }
}

void ConcurrentHistory::NumberValue(const std::string& value) {
  if (numbers_.try_emplace(value, values_.size()).second) values_.push_back(value);
}

void ConcurrentHistory::Restart() {
  registers_.assign(hot_.size(), {});
  versions_ = tree_versions_;
  now_ = 0;
  BeginWith(tree_);
}

void ConcurrentHistory::Adopt(const Observation& found) {
  Event();
  for (size_t key = 0; key < hot_.size(); ++key) {
    registers_[key].done.clear();
    if (found.values[key] != kAbsent) versions_[found.values[key]] = found.versions[key];
  }
  BeginWith(found);
}

// From here on puts get higher versions than what is there and than those of returned puts.
void ConcurrentHistory::BeginWith(const Observation& first) {
  first_ = first.values;
  flights_.assign(flights_.size(), {});
  applied_index_ = first.applied_index;
  for (size_t key = 0; key < hot_.size(); ++key) {
    if (first_[key] != kAbsent) registers_[key].puts.push_back({first.versions[key], now_});
  }
}

// Earlier checks are no longer valid.
int64_t ConcurrentHistory::Event() {
  for (Register& of : registers_) of.checked.clear();
  return ++now_;
}

// --- calls ---

ConcurrentHistory::Problem ConcurrentHistory::Make(Engine& engine, unsigned thread,
                                                   const Call& call,
                                                   absl::FunctionRef<void()> returned) {
  switch (call.kind) {
    case Call::Kind::kWrite: return MakeWrite(engine, thread, call.step, returned);
    case Call::Kind::kRead: return MakeRead(engine, thread, call);
    case Call::Kind::kScan: return MakeScan(engine, thread, call);
  }
  return {};
}

ConcurrentHistory::Problem ConcurrentHistory::MakeWrite(Engine& engine, unsigned thread,
                                                        const Step& step,
                                                        absl::FunctionRef<void()> returned) {
  const std::vector<WriteOp> ops = step.Ops();
  std::vector<WriteResult> results(ops.size());
  const Flight flight{&step, Event()};
  flights_[thread] = flight;
  (void)engine.Write(ops, results, step.Options());
  returned();
  Event();
  flights_[thread] = {};
  bool all_ok = true;
  for (size_t i = 0; i < ops.size(); ++i) {
    all_ok &= results[i].outcome == Outcome::kOk;
    if (Problem problem = NoteWrite(step.ops[i], results[i], flight, thread)) return problem;
  }
  if (all_ok && step.applied_index.has_value()) {
    applied_index_ = std::max(applied_index_, *step.applied_index);
  }
  const bool none_ok = std::all_of(results.begin(), results.end(), [](const WriteResult& result) {
    return result.outcome != Outcome::kOk;
  });
  if (step.atomic && !all_ok && !none_ok) {
    return absl::StrCat("of an atomic batch a part was acknowledged: ", step.Describe());
  }
  return {};
}

ConcurrentHistory::Problem ConcurrentHistory::NoteWrite(const StepOp& op, const WriteResult& result,
                                                        const Flight& flight, unsigned thread) {
  Register& of = registers_[IndexOf(op.key)];
  const auto note = [&](const RegisterOp& what) {
    of.done.push_back(what.At(flight.call_time, now_, thread));
  };
  switch (result.outcome) {
    case Outcome::kPoolFull: ++pool_full_; return {};
    case Outcome::kAborted: return {};
    case Outcome::kConditionFailed: note(Refused(op, result)); return {};
    case Outcome::kOk: break;
    default:
      return absl::StrCat("an operation on ", Show(op.key), " ends with outcome ",
                          static_cast<int>(result.outcome));
  }
  if (op.kind == WriteKind::kDelete && !result.found) {
    note(RegisterOp::Read(kAbsent));
    return {};
  }
  RegisterOp applied = Attempt(op);
  if (op.kind == WriteKind::kDelete && applied.require == RegisterOp::Require::kAnything) {
    applied = RegisterOp::Delete(true);
  }
  note(applied);
  return op.kind == WriteKind::kPut ? NotePut(op, result, flight.call_time) : Problem();
}

ConcurrentHistory::Problem ConcurrentHistory::NotePut(const StepOp& op, const WriteResult& result,
                                                      int64_t call_time) {
  uint64_t& known = versions_[NumberOf(op.value)];
  if (case_.has_versions() == (result.version == 0) || (known != 0 && known != result.version)) {
    return absl::StrCat("a put of ", Show(op.key), " returns version ", result.version,
                        known == 0 ? "" : absl::StrCat(", a reader has seen it with ", known));
  }
  known = result.version;
  if (!case_.has_versions()) return {};
  Register& of = registers_[IndexOf(op.key)];
  for (const Register::Put& before : of.puts) {
    if (before.return_time > call_time || before.version < result.version) continue;
    return absl::StrCat("a put of ", Show(op.key), " returns version ", result.version,
                        ", an earlier one had returned ", before.version);
  }
  of.puts.push_back({result.version, now_});
  return {};
}

// The operation's effect if its condition holds.
RegisterOp ConcurrentHistory::Attempt(const StepOp& op) const {
  const uint64_t value = op.kind == WriteKind::kPut ? NumberOf(op.value) : kAbsent;
  switch (op.condition) {
    case Condition::kNone: return RegisterOp::Write(value);
    case Condition::kIfAbsent: return RegisterOp::WriteIfAbsent(value, true);
    case Condition::kIfPresent: return RegisterOp::WriteIfPresent(value, true);
    case Condition::kIfVersion:
      return RegisterOp::CompareAndSet(NumberOfVersion(op.if_version), value, true);
  }
  return {};
}

// What the answer to an operation whose condition did not hold says about its key.
RegisterOp ConcurrentHistory::Refused(const StepOp& op, const WriteResult& result) const {
  if (!result.found) return RegisterOp::Read(kAbsent);
  const uint64_t known = NumberOfVersion(result.version);
  if (case_.has_versions() && known != kNone) return RegisterOp::Read(known);
  if (op.condition != Condition::kIfVersion) return RegisterOp::CompareAndSet(kAbsent, 0, false);
  return RegisterOp::CompareAndSet(NumberOfVersion(op.if_version), 0, false);
}

ConcurrentHistory::Problem ConcurrentHistory::MakeRead(Engine& engine, unsigned thread,
                                                       const Call& call) {
  const std::vector<std::string_view> keys(call.keys.begin(), call.keys.end());
  std::vector<ReadResult> results(keys.size());
  const int64_t call_time = Event();
  const Outcome outcome = engine.Read(keys, results, {kRunNow});
  Event();
  if (outcome != Outcome::kOk) {
    return absl::StrCat("a read ends with outcome ", static_cast<int>(outcome));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t key = IndexOf(keys[i]);
    if (!results[i].found) {
      registers_[key].done.push_back(RegisterOp::Read(kAbsent).At(call_time, now_, thread));
    } else if (Problem problem =
                   NoteRead(key, results[i].value, results[i].version, call_time, thread)) {
      return problem;
    }
  }
  return {};
}

ConcurrentHistory::Problem ConcurrentHistory::NoteRead(size_t key, std::string_view value,
                                                       uint64_t version, int64_t call_time,
                                                       unsigned thread) {
  const uint64_t number = NumberOf(value);
  registers_[key].done.push_back(RegisterOp::Read(number).At(call_time, now_, thread));
  if (number == kUnknown) {
    return absl::StrCat("key ", Show(hot_[key]), " has ", Show(value), ", which nobody wrote");
  }
  uint64_t& known = versions_[number];
  if (case_.has_versions() == (version == 0) || (known != 0 && known != version)) {
    return absl::StrCat("key ", Show(hot_[key]), " is read with version ", version, ", it has ",
                        known);
  }
  known = version;
  return {};
}

// Each item is read when the visitor is called; a key that is passed over, at some moment.
ConcurrentHistory::Problem ConcurrentHistory::MakeScan(Engine& engine, unsigned thread,
                                                       const Call& call) {
  Problem problem;
  std::vector<bool> seen(hot_.size());
  size_t others = 0;
  std::string last;
  bool first = true;
  const int64_t call_time = Event();
  const auto visit = [&](const ScanItem& item) {
    const bool in_order = call.reverse ? item.key < last : item.key > last;
    if (!first && !in_order) problem = "a scan is out of order";
    first = false;
    last.assign(item.key);
    Event();
    const size_t key = IndexOf(item.key);
    if (key == hot_.size()) {
      const auto known = others_.find(item.key);
      const bool right =
          known != others_.end() && known->second == Seen{std::string(item.value), item.version};
      if (!right) problem = absl::StrCat("a scan sees a wrong value of ", Show(item.key));
      ++others;
    } else if (!problem) {
      seen[key] = true;
      problem = NoteRead(key, item.value, item.version, call_time, thread);
    }
    return !problem.has_value();
  };
  const Outcome outcome = engine.Scan({.reverse = call.reverse, .now_unix_ms = kRunNow}, visit);
  Event();
  if (problem) return problem;
  if (outcome != Outcome::kOk || others != others_.size()) {
    return absl::StrCat("a scan ends with outcome ", static_cast<int>(outcome), " and ", others,
                        " of ", others_.size(), " keys that nobody changes");
  }
  for (size_t key = 0; key < hot_.size(); ++key) {
    if (seen[key]) continue;
    registers_[key].done.push_back(RegisterOp::Read(kAbsent).At(call_time, now_, thread));
  }
  return {};
}

// --- what an engine holds ---

Observation ConcurrentHistory::Observe(Engine& engine) const {
  Observation observation;
  observation.values.assign(hot_.size(), kAbsent);
  observation.versions.assign(hot_.size(), 0);
  observation.applied_index = engine.AppliedIndex();
  uint64_t keys = 0;
  observation.problem = ObserveScan(engine, &observation, &keys);
  if (!observation.problem.empty()) return observation;
  observation.problem = ObserveReads(engine, observation);
  if (!observation.problem.empty()) return observation;
  const CheckReport report = engine.Check();
  if (report.problem_count > 0) {
    observation.problem =
        absl::StrCat("Check finds ", report.problem_count,
                     " problems, first: ", report.problems.empty() ? "?" : report.problems.front());
  } else if (report.keys != keys) {
    observation.problem = absl::StrCat("Check counts ", report.keys, " keys, a scan ", keys);
  }
  return observation;
}

std::string ConcurrentHistory::ObserveScan(Engine& engine, Observation* observation,
                                           uint64_t* keys) const {
  std::string problem;
  std::string last;
  auto other = others_.begin();
  const Outcome outcome = engine.Scan({.now_unix_ms = kRunNow}, [&](const ScanItem& item) {
    if ((*keys)++ > 0 && item.key <= last) problem = "a scan is out of order";
    last.assign(item.key);
    const size_t key = IndexOf(item.key);
    if (key < hot_.size()) {
      observation->values[key] = NumberOf(item.value);
      observation->versions[key] = item.version;
      return true;
    }
    const bool right = other != others_.end() && other->first == item.key &&
                       other->second == Seen{std::string(item.value), item.version};
    if (!right) {
      problem = absl::StrCat("a key that nobody changed is lost, or is new: ", Show(item.key),
                             " is next, it should be ",
                             other == others_.end() ? "the end" : Show(other->first));
      return false;
    }
    ++other;
    return true;
  });
  if (!problem.empty()) return problem;
  if (outcome != Outcome::kOk) {
    return absl::StrCat("a scan ends with outcome ", static_cast<int>(outcome));
  }
  if (other == others_.end()) return "";
  return absl::StrCat("key ", Show(other->first), ", which nobody changed, is lost");
}

std::string ConcurrentHistory::ObserveReads(Engine& engine, const Observation& observation) const {
  const std::vector<std::string_view> keys(hot_.begin(), hot_.end());
  std::vector<ReadResult> results(keys.size());
  const Outcome outcome = engine.Read(keys, results, {kRunNow});
  if (outcome != Outcome::kOk) {
    return absl::StrCat("a read ends with outcome ", static_cast<int>(outcome));
  }
  for (size_t key = 0; key < keys.size(); ++key) {
    const uint64_t number = results[key].found ? NumberOf(results[key].value) : kAbsent;
    if (number == observation.values[key] && results[key].version == observation.versions[key]) {
      continue;
    }
    return absl::StrCat("a read of ", Show(keys[key]), " finds ", ShowNumber(number, values_),
                        ", a scan ", ShowNumber(observation.values[key], values_));
  }
  return "";
}

size_t ConcurrentHistory::IndexOf(std::string_view key) const {
  return static_cast<size_t>(std::find(hot_.begin(), hot_.end(), key) - hot_.begin());
}

uint64_t ConcurrentHistory::NumberOf(std::string_view value) const {
  const auto it = numbers_.find(value);
  return it == numbers_.end() ? kUnknown : it->second;
}

uint64_t ConcurrentHistory::NumberOfVersion(uint64_t version) const {
  const auto it = std::find(versions_.begin() + 1, versions_.end(), version);
  return version == 0 || it == versions_.end() ? kNone
                                               : static_cast<uint64_t>(it - versions_.begin());
}

// --- checking ---

ConcurrentHistory::Problem ConcurrentHistory::Check(const Observation& observation) {
  if (!observation.problem.empty()) return observation.problem;
  if (Problem problem = CheckVersions(observation)) return problem;
  uint32_t batches = 0;
  for (size_t thread = 0; thread < flights_.size(); ++thread) {
    const Step* step = flights_[thread].step;
    if (step != nullptr && step->atomic) batches |= uint32_t{1} << thread;
  }
  // Any subset of the batches in flight may have taken effect.
  for (uint32_t done = batches;; done = (done - 1) & batches) {
    bool fits = AppliedIndexFits(observation.applied_index, done);
    for (size_t key = 0; key < hot_.size() && fits; ++key) {
      fits = Fits(key, observation.values[key], done);
    }
    if (fits) return {};
    if (done == 0) break;
  }
  return Explain(observation, batches);
}

void ConcurrentHistory::Note(const Observation& observation) {
  const int64_t call_time = Event();
  Event();
  for (size_t key = 0; key < hot_.size(); ++key) {
    registers_[key].done.push_back(
        RegisterOp::Read(observation.values[key])
            .At(call_time, now_, static_cast<uint32_t>(flights_.size())));
  }
}

bool ConcurrentHistory::Fits(size_t key, uint64_t value, uint32_t batches) {
  auto& checked = registers_[key].checked;
  for (const Register::Checked& known : checked) {
    if (known.value == value && known.batches == batches) return known.fits;
  }
  const bool fits = !FindAnomaly(HistoryOf(key, value, batches), first_[key]).has_value();
  checked.push_back({value, batches, fits});
  return fits;
}

// With the batches in `batches` in effect, and no other batch in flight.
std::vector<RegisterOp> ConcurrentHistory::HistoryOf(size_t key, uint64_t value,
                                                     uint32_t batches) const {
  std::vector<RegisterOp> history = registers_[key].done;
  for (uint32_t thread = 0; thread < flights_.size(); ++thread) {
    const Flight& flight = flights_[thread];
    if (flight.step == nullptr) continue;
    const bool took_effect = (batches >> thread & 1) != 0;
    if (flight.step->atomic && !took_effect) continue;
    for (const StepOp& op : flight.step->ops) {
      if (op.key != hot_[key]) continue;
      history.push_back(
          Attempt(op).At(flight.call_time, took_effect ? now_ + 1 : kNeverReturned, thread));
    }
  }
  history.push_back(
      RegisterOp::Read(value).At(now_ + 2, now_ + 3, static_cast<uint32_t>(flights_.size())));
  return history;
}

bool ConcurrentHistory::AppliedIndexFits(uint64_t found, uint32_t batches) const {
  uint64_t expected = applied_index_;
  for (; batches != 0; batches &= batches - 1) {
    const Step& step = *flights_[static_cast<size_t>(std::countr_zero(batches))].step;
    expected = std::max(expected, step.applied_index.value_or(0));
  }
  return found == expected;
}

ConcurrentHistory::Problem ConcurrentHistory::CheckVersions(const Observation& observation) const {
  for (size_t key = 0; key < hot_.size(); ++key) {
    const uint64_t number = observation.values[key];
    if (number == kAbsent) continue;
    if (number == kUnknown) {
      return absl::StrCat("key ", Show(hot_[key]), " has a value that nobody wrote");
    }
    const uint64_t known = versions_[number];
    const uint64_t version = observation.versions[key];
    if (case_.has_versions() == (version != 0) && (known == 0 || known == version)) continue;
    return absl::StrCat("key ", Show(hot_[key]), " has version ", version, ", right is ", known);
  }
  return {};
}

std::string ConcurrentHistory::Explain(const Observation& observation, uint32_t batches) const {
  std::string text = absl::StrCat("no order of the calls explains what is found: applied index ",
                                  observation.applied_index, ", acknowledged is ", applied_index_);
  for (size_t key = 0; key < hot_.size(); ++key) {
    absl::StrAppend(&text, "\n  key ", Show(hot_[key]), " has ",
                    ShowNumber(observation.values[key], values_), ", had ",
                    ShowNumber(first_[key], values_), " at first");
    for (const bool done : {true, false}) {
      if (!done && batches == 0) continue;
      const auto anomaly =
          FindAnomaly(HistoryOf(key, observation.values[key], done ? batches : 0), first_[key]);
      if (!anomaly) continue;
      absl::StrAppend(&text,
                      batches == 0 ? ""
                      : done       ? ", with all batches: "
                                   : ", without: ",
                      *anomaly);
    }
  }
  return text;
}

}  // namespace lodgekv::test
