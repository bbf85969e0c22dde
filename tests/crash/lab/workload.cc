#include "tests/crash/lab/workload.h"

#include <algorithm>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "tests/support/engine_calls.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

// Added to a version, gives one that no run reaches.
constexpr uint64_t kWrongVersion = 1'000'000'000;

// Keys with a long common prefix: the separators between them need a record.
std::string LongKey(uint64_t number) {
  std::string key(100 + number % 3 * 30, 'p');
  return absl::StrCat(key, BigEndian(number), "/", number % 7);
}

// At most 8 bytes, so that the pair fits into a slot.
std::string ShortKey(uint64_t number) {
  return BigEndian(number).substr(7 - number % 3, 1 + number % 3) + std::string(number % 4, 'x');
}

std::string KeyOf(KeyFormat format, std::string_view family, uint64_t number) {
  if (family == "long") return LongKey(number);
  if (family == "short") return ShortKey(number);
  for (const KeyFamily& known : KeyFamilies(format)) {
    if (known.name == family) return known.make(number);
  }
  throw std::invalid_argument(
      absl::StrCat("no key family '", std::string(family), "' in this key format"));
}

std::string ConditionName(Condition condition) {
  switch (condition) {
    case Condition::kNone: return "";
    case Condition::kIfAbsent: return " if absent";
    case Condition::kIfPresent: return " if present";
    case Condition::kIfVersion: return " if version";
  }
  return "?";
}

}  // namespace

std::vector<WriteOp> Step::Ops() const {
  std::vector<WriteOp> result;
  for (const StepOp& op : ops) {
    result.push_back({op.kind, op.condition, op.key, op.value, op.if_version, op.expiry_unix_ms});
  }
  return result;
}

WriteOptions Step::Options() const {
  WriteOptions options;
  options.atomic = atomic;
  options.now_unix_ms = kRunNow;
  options.applied_index = applied_index;
  return options;
}

std::string Step::Describe() const {
  std::string text = atomic ? "atomic:" : "";
  for (const StepOp& op : ops) {
    absl::StrAppend(&text, text.empty() ? "" : " ", op.kind == WriteKind::kPut ? "put " : "delete ",
                    Show(op.key), ConditionName(op.condition));
    if (op.kind == WriteKind::kPut) absl::StrAppend(&text, " = ", Show(op.value));
    absl::StrAppend(&text, ";");
  }
  if (applied_index.has_value()) absl::StrAppend(&text, " applied index ", *applied_index);
  return text;
}

Workload::Workload(const EngineCase& engine_case, const Mixture& mixture)
    : case_(engine_case), mixture_(mixture) {
  for (uint64_t number = 0; keys_.size() < mixture.keys; ++number) {
    std::string key = KeyOf(case_.key_format, mixture.family, number);
    if (std::find(keys_.begin(), keys_.end(), key) == keys_.end()) keys_.push_back(std::move(key));
  }
}

// Every value is different. Short ones fit into a slot if the pool has inline pairs.
std::string Workload::NextValue(Random& random) {
  const uint64_t id = next_value_++;
  if (case_.fixed64()) return ValueOf(case_.key_format, id);
  if (case_.inline_pairs && random.Percent(60)) return absl::StrCat(id % 100'000);
  if (random.OneIn(12)) return "";
  return ValueOf(case_.key_format, id, random.Between(8, std::max(8U, mixture_.largest_value)));
}

Step Workload::PutNumber(uint64_t number) {
  Step step;
  const std::string& key = keys_[number % keys_.size()];
  step.ops.push_back(
      {WriteKind::kPut, Condition::kNone, key, ValueOf(case_.key_format, next_value_++), 0, 0});
  return step;
}

unsigned Workload::DeletesNow() const {
  const bool ebb = mixture_.tide != 0 && steps_ / mixture_.tide % 2 == 1;
  return ebb ? 100 - mixture_.deletes : mixture_.deletes;
}

StepOp Workload::NextOp(Random& random, VersionOf version_of) {
  StepOp op;
  op.key = keys_[random.Below(keys_.size())];
  if (random.Percent(DeletesNow())) op.kind = WriteKind::kDelete;
  if (op.kind == WriteKind::kPut) op.value = NextValue(random);
  if (random.Percent(mixture_.conditions)) {
    op.condition = random.OneIn(2) ? Condition::kIfAbsent : Condition::kIfPresent;
    if (case_.has_versions() && random.OneIn(2)) {
      op.condition = Condition::kIfVersion;
      op.if_version = version_of(op.key) + (random.OneIn(2) ? kWrongVersion : 0);
      if (op.if_version == 0) op.if_version = 1;
    }
  }
  if (op.kind == WriteKind::kPut && case_.has_versions() && random.Percent(mixture_.expiries)) {
    op.expiry_unix_ms = kRunNow + 1 + random.Below(1'000'000);
  }
  return op;
}

Step Workload::Next(Random& random, VersionOf version_of) {
  Step step;
  step.atomic = random.Percent(mixture_.batches);
  const bool several = step.atomic || random.Percent(mixture_.groups);
  const size_t count = several ? random.Between(1, mixture_.largest_group) : 1;
  while (step.ops.size() < count) {
    StepOp op = NextOp(random, version_of);
    const bool repeats = std::any_of(step.ops.begin(), step.ops.end(),
                                     [&](const StepOp& other) { return other.key == op.key; });
    if (!step.atomic || !repeats) step.ops.push_back(std::move(op));
  }
  if (step.atomic && random.Percent(70)) step.applied_index = ++applied_index_;
  ++steps_;
  return step;
}

}  // namespace lodgekv::test
