#include "tests/support/engine_calls.h"

#include <sstream>
#include <stdexcept>
#include <utility>

#include "absl/strings/escaping.h"

namespace lodgekv {

std::ostream& operator<<(std::ostream& out, Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk: return out << "kOk";
    case Outcome::kConditionFailed: return out << "kConditionFailed";
    case Outcome::kAborted: return out << "kAborted";
    case Outcome::kInvalidArgument: return out << "kInvalidArgument";
    case Outcome::kPoolFull: return out << "kPoolFull";
    case Outcome::kDataLoss: return out << "kDataLoss";
    case Outcome::kMediumFailed: return out << "kMediumFailed";
  }
  return out << "Outcome(" << static_cast<int>(outcome) << ")";
}

}  // namespace lodgekv

namespace lodgekv::test {
namespace {

constexpr size_t kShownBytes = 40;

Outcome FirstOther(const std::vector<WriteResult>& results) {
  for (const WriteResult& result : results) {
    if (result.outcome != Outcome::kOk) return result.outcome;
  }
  return Outcome::kOk;
}

}  // namespace

WriteOp PutOp(std::string_view key, std::string_view value, Condition condition,
              uint64_t if_version) {
  WriteOp op;
  op.condition = condition;
  op.key = key;
  op.value = value;
  op.if_version = if_version;
  return op;
}

WriteOp DeleteOp(std::string_view key, Condition condition, uint64_t if_version) {
  WriteOp op = PutOp(key, {}, condition, if_version);
  op.kind = WriteKind::kDelete;
  return op;
}

WriteResult Apply(Engine& engine, const WriteOp& op, uint64_t now_unix_ms) {
  WriteOptions options;
  options.now_unix_ms = now_unix_ms;
  return Group(engine, {op}, options).front();
}

WriteResult Put(Engine& engine, std::string_view key, std::string_view value) {
  return Apply(engine, PutOp(key, value));
}

WriteResult Delete(Engine& engine, std::string_view key) { return Apply(engine, DeleteOp(key)); }

ReadResult Get(Engine& engine, std::string_view key, uint64_t now_unix_ms) {
  ReadResult result;
  const Outcome outcome = engine.Read({&key, 1}, {&result, 1}, {.now_unix_ms = now_unix_ms});
  if (outcome != result.outcome) {
    throw std::logic_error("Read returned another outcome than its only result has");
  }
  return result;
}

std::vector<WriteResult> Group(Engine& engine, const std::vector<WriteOp>& ops,
                               const WriteOptions& options) {
  std::vector<WriteResult> results(ops.size());
  if (engine.Write(ops, results, options) != FirstOther(results)) {
    throw std::logic_error("Write returned another outcome than the first other of its results");
  }
  return results;
}

std::vector<WriteResult> Atomic(Engine& engine, const std::vector<WriteOp>& ops,
                                uint64_t now_unix_ms) {
  WriteOptions options;
  options.atomic = true;
  options.now_unix_ms = now_unix_ms;
  return Group(engine, ops, options);
}

std::vector<Pair> ScanAll(Engine& engine, const ScanOptions& options) {
  std::vector<Pair> pairs;
  const Outcome outcome = engine.Scan(options, [&pairs](const ScanItem& item) {
    pairs.push_back(
        {std::string(item.key), std::string(item.value), item.version, item.expiry_unix_ms});
    return true;
  });
  if (outcome != Outcome::kOk) throw std::logic_error("Scan did not return kOk");
  return pairs;
}

std::vector<std::string> ScanKeys(Engine& engine, const ScanOptions& options) {
  std::vector<std::string> keys;
  for (Pair& pair : ScanAll(engine, options)) keys.push_back(std::move(pair.key));
  return keys;
}

std::string Show(std::string_view bytes) {
  std::ostringstream shown;
  shown << '\'' << absl::CHexEscape(std::string(bytes.substr(0, kShownBytes))) << '\'';
  if (bytes.size() > kShownBytes) shown << "... (" << bytes.size() << " bytes)";
  return std::move(shown).str();
}

}  // namespace lodgekv::test
