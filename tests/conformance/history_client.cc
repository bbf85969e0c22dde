#include "tests/conformance/history_client.h"

#include <sstream>
#include <utility>

#include "tests/support/engine_calls.h"

namespace lodgekv::test {
namespace {

// Some values are longer than a line, so that a mixture of two would be noticed.
size_t SizeOf(uint64_t id) { return id % 4 == 0 ? 8 + id % 300 : 8; }

constexpr uint64_t kNobodysId = ~uint64_t{0} >> 1;

}  // namespace

void Histories::Merge(const Histories& other) {
  for (size_t key = 0; key < of_key_.size(); ++key) {
    const auto& from = other.of_key_[key];
    of_key_[key].insert(of_key_[key].end(), from.begin(), from.end());
  }
}

size_t Histories::operations() const {
  size_t operations = 0;
  for (const auto& history : of_key_) operations += history.size();
  return operations;
}

std::optional<std::string> Histories::FindAnomaly() const {
  for (size_t key = 0; key < of_key_.size(); ++key) {
    const auto anomaly = test::FindAnomaly(of_key_[key]);
    if (anomaly) return "key " + std::to_string(key) + ": " + *anomaly;
  }
  return std::nullopt;
}

HistoryClient::HistoryClient(Engine& engine, KeyFormat format, size_t keys, uint32_t thread)
    : engine_(engine), format_(format), thread_(thread), histories_(keys) {
  for (size_t key = 0; key < keys; ++key) keys_.push_back(OrderedKey(format, key));
}

void HistoryClient::Mistake(size_t key, std::string_view what) {
  std::ostringstream out;
  out << "thread " << thread_ << ", key " << key << ": " << what;
  mistakes_.push_back(std::move(out).str());
}

uint64_t HistoryClient::IdOfRead(size_t key, const ReadResult& result) {
  if (result.outcome != Outcome::kOk) Mistake(key, "a read did not answer kOk");
  if (!result.found) return kAbsent;
  const uint64_t id = result.value.size() < 8 ? kNobodysId : IdOf(result.value);
  if (result.value != ValueOf(format_, id, SizeOf(id))) {
    Mistake(key, "a read gave a value that nobody put: " + Show(result.value));
  }
  return id;
}

void HistoryClient::Read(const std::vector<size_t>& keys) {
  std::vector<std::string_view> views;
  for (const size_t key : keys) views.push_back(keys_[key]);
  std::vector<ReadResult> results(views.size());
  const int64_t call = TimeOfCall();
  static_cast<void>(engine_.Read(views, results, {}));
  const int64_t ret = TimeOfReturn();
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t id = IdOfRead(keys[i], results[i]);
    histories_.Add(keys[i], RegisterOp::Read(id).At(call, ret, thread_));
  }
}

HistoryClient::Planned HistoryClient::Plan(size_t key, WriteKind kind, Condition condition) {
  Planned planned{.key = key, .op = {}, .id = 0, .expected = kAbsent};
  planned.op.kind = kind;
  planned.op.condition = condition;
  planned.op.key = keys_[key];
  if (kind == WriteKind::kPut) planned.id = uint64_t{thread_ + 1} << 40 | ++next_value_;
  return planned;
}

void HistoryClient::Execute(std::vector<Planned>& planned, bool atomic) {
  values_.clear();
  for (const Planned& plan : planned) {
    values_.push_back(ValueOf(format_, plan.id, SizeOf(plan.id)));
  }
  std::vector<WriteOp> ops;
  for (size_t i = 0; i < planned.size(); ++i) {
    ops.push_back(planned[i].op);
    if (ops.back().kind == WriteKind::kPut) ops.back().value = values_[i];
  }
  std::vector<WriteResult> results(ops.size());
  const int64_t call = TimeOfCall();
  static_cast<void>(engine_.Write(ops, results, {.atomic = atomic}));
  const int64_t ret = TimeOfReturn();
  for (size_t i = 0; i < ops.size(); ++i) Note(planned[i], results[i], atomic, call, ret);
}

void HistoryClient::Note(const Planned& planned, const WriteResult& result, bool atomic,
                         int64_t call, int64_t ret) {
  const bool applied = result.outcome == Outcome::kOk;
  if (result.outcome == Outcome::kAborted && atomic) return;
  if (!applied && result.outcome != Outcome::kConditionFailed) {
    Mistake(planned.key, "a write did not answer kOk or kConditionFailed");
    return;
  }
  RegisterOp op;
  const bool put = planned.op.kind == WriteKind::kPut;
  switch (planned.op.condition) {
    case Condition::kNone:
      op = put ? RegisterOp::Write(planned.id) : RegisterOp::Delete(result.found);
      break;
    case Condition::kIfAbsent:
      op = put ? RegisterOp::WriteIfAbsent(planned.id, applied) : RegisterOp::Delete(!applied);
      break;
    case Condition::kIfPresent:
      op = put ? RegisterOp::WriteIfPresent(planned.id, applied) : RegisterOp::Delete(applied);
      break;
    case Condition::kIfVersion:
      op = RegisterOp::CompareAndSet(planned.expected, planned.id, applied);
      break;
  }
  if (!applied && planned.op.condition == Condition::kNone) {
    Mistake(planned.key, "a write without condition answered kConditionFailed");
  }
  histories_.Add(planned.key, op.At(call, ret, thread_));
}

void HistoryClient::Put(size_t key) {
  std::vector<Planned> planned = {Plan(key, WriteKind::kPut, Condition::kNone)};
  Execute(planned, false);
}

void HistoryClient::PutIfAbsent(size_t key) {
  std::vector<Planned> planned = {Plan(key, WriteKind::kPut, Condition::kIfAbsent)};
  Execute(planned, false);
}

void HistoryClient::PutIfPresent(size_t key) {
  std::vector<Planned> planned = {Plan(key, WriteKind::kPut, Condition::kIfPresent)};
  Execute(planned, false);
}

void HistoryClient::ReadAndReplace(size_t key) {
  const std::string_view view = keys_[key];
  ReadResult read;
  const int64_t call = TimeOfCall();
  static_cast<void>(engine_.Read({&view, 1}, {&read, 1}, {}));
  const uint64_t id = IdOfRead(key, read);
  histories_.Add(key, RegisterOp::Read(id).At(call, TimeOfReturn(), thread_));
  if (!read.found) return;
  std::vector<Planned> planned = {Plan(key, WriteKind::kPut, Condition::kIfVersion)};
  planned[0].op.if_version = read.version;
  planned[0].expected = id;
  Execute(planned, false);
}

void HistoryClient::Delete(size_t key) {
  std::vector<Planned> planned = {Plan(key, WriteKind::kDelete, Condition::kNone)};
  Execute(planned, false);
}

void HistoryClient::DeleteIfPresent(size_t key) {
  std::vector<Planned> planned = {Plan(key, WriteKind::kDelete, Condition::kIfPresent)};
  Execute(planned, false);
}

void HistoryClient::Group(const std::vector<size_t>& keys, bool atomic) {
  std::vector<Planned> planned;
  for (size_t i = 0; i < keys.size(); ++i) {
    const WriteKind kind = (keys[i] + i) % 4 == 0 ? WriteKind::kDelete : WriteKind::kPut;
    const Condition condition = i % 3 == 2 ? Condition::kIfPresent : Condition::kNone;
    planned.push_back(Plan(keys[i], kind, condition));
  }
  Execute(planned, atomic);
}

}  // namespace lodgekv::test
