#include "tests/media/golden_set.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/support/engine_calls.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kKeys = 900;
constexpr uint64_t kExpiry = 4'102'444'800'000;  // the year 2100
constexpr uint64_t kPoolBytes = uint64_t{8} << 20;
constexpr size_t kLargeValue = 100'000;  // larger than any slab's class in a pool of this size

// One operation of the history; owns its data.
struct Step {
  WriteKind kind = WriteKind::kPut;
  std::string key;
  std::string value = {};
  uint64_t expiry_unix_ms = 0;

  WriteOp Op() const {
    WriteOp op = kind == WriteKind::kPut ? PutOp(key, value) : DeleteOp(key);
    op.expiry_unix_ms = expiry_unix_ms;
    return op;
  }
};

struct History {
  std::vector<Step> steps;
  std::vector<Step> atomic;  // the last group, with kGoldenAppliedIndex
};

// Many keys with a long common prefix, so that separators need records; short ones; one byte.
std::string BytesKey(uint64_t n) {
  switch (n % 4) {
    case 0: return absl::StrFormat("user:%010d", n);
    case 1: return std::string(120, 'p') + absl::StrFormat("/%06d", n);
    case 2: return absl::StrFormat("k%d", n);
    default: return absl::StrFormat("%08d", n);
  }
}

Step PutStep(const GoldenPool& golden, uint64_t n, unsigned round) {
  Step step;
  if (golden.of.key_format == KeyFormat::kFixed64) {
    step.key = BigEndian(n * 0x9E3779B97F4A7C15ull);
    step.value = BigEndian(n << 8 | round);
    return step;
  }
  step.key = BytesKey(n);
  // Every length that the forms of a pair distinguish.
  step.value = absl::StrCat(n, "-", round, std::string(n % 40, 'v')).substr(0, n % 45);
  if (n % 11 == 0 && !golden.of.inline_pairs) step.expiry_unix_ms = kExpiry + n;
  return step;
}

History MakeHistory(const GoldenPool& golden) {
  History history;
  for (uint64_t n = 0; n < kKeys; ++n) history.steps.push_back(PutStep(golden, n, 0));
  for (uint64_t n = 0; n < kKeys; n += 3) history.steps.push_back(PutStep(golden, n, 1));
  for (uint64_t n = 0; n < kKeys; n += 7) {
    history.steps.push_back({WriteKind::kDelete, PutStep(golden, n, 0).key});
  }
  for (uint64_t n = 0; n < kKeys; n += 49) history.steps.push_back(PutStep(golden, n, 2));
  if (golden.of.key_format == KeyFormat::kBytes) {
    using namespace std::string_literals;
    history.steps.push_back({WriteKind::kPut, "\0"s, ""});
    history.steps.push_back({WriteKind::kPut, "zero\0inside"s, "\0\0"s});
    history.steps.push_back({WriteKind::kPut, std::string(1000, 'L'), "long key"});
    history.steps.push_back({WriteKind::kPut, "large", std::string(kLargeValue, 'x')});
    history.steps.push_back({WriteKind::kPut, "\xff\xff", std::string(3000, 'y')});
  }
  history.atomic = {PutStep(golden, kKeys, 3),
                    PutStep(golden, 1, 3),
                    {WriteKind::kDelete, PutStep(golden, 2, 0).key}};
  return history;
}

absl::Status Write(Engine& engine, const std::vector<Step>& steps, const WriteOptions& options) {
  std::vector<WriteOp> ops;
  for (const Step& step : steps) ops.push_back(step.Op());
  for (const WriteResult& result : Group(engine, ops, options)) {
    if (result.outcome == Outcome::kOk) continue;
    return absl::InternalError(absl::StrCat("the write of ", Show(steps[0].key), " ended with ",
                                            static_cast<int>(result.outcome)));
  }
  return absl::OkStatus();
}

std::vector<std::string> SplitLines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

void ApplyToModel(const std::vector<Step>& steps, std::map<std::string, GoldenPair>& content) {
  for (const Step& step : steps) {
    if (step.kind == WriteKind::kDelete) {
      content.erase(step.key);
    } else {
      content[step.key] = {step.value, step.expiry_unix_ms};
    }
  }
}

}  // namespace

// Of the media version that each engine writes now, in every format.
const std::vector<GoldenPool>& GoldenPools() {
  static const std::vector<GoldenPool> pools = [] {
    std::vector<GoldenPool> all;
    for (const EngineCase& of : PersistentCases()) {
      if (of.small_nodes) continue;
      const std::string engine(of.engine->name);
      all.push_back({of, absl::StrCat(engine, "_v", of.engine->media_version,
                                      of.Name().substr(engine.size()))});
    }
    return all;
  }();
  return pools;
}

StoreOptions GoldenOptions(const GoldenPool& golden, const std::string& path) {
  StoreOptions options;
  options.engine = std::string(golden.of.engine->name);
  options.pool_path = path;
  options.pool_size_bytes = kPoolBytes;
  options.key_format = golden.of.key_format;
  options.inline_pairs = golden.of.inline_pairs;
  options.process_durability = true;
  options.allow_volatile_medium = true;
  options.recovery_threads = 1;
  options.engine_options = NamedOptionsFor(golden.of);
  return options;
}

absl::Status WriteGoldenHistory(const GoldenPool& golden, Engine& engine) {
  const History history = MakeHistory(golden);
  for (const Step& step : history.steps) {
    if (absl::Status status = Write(engine, {step}, {}); !status.ok()) return status;
  }
  WriteOptions options;
  options.atomic = true;
  options.applied_index = kGoldenAppliedIndex;
  return Write(engine, history.atomic, options);
}

std::map<std::string, GoldenPair> GoldenContent(const GoldenPool& golden) {
  const History history = MakeHistory(golden);
  std::map<std::string, GoldenPair> content;
  ApplyToModel(history.steps, content);
  ApplyToModel(history.atomic, content);
  return content;
}

absl::StatusOr<std::string> DumpEngine(Engine& engine) {
  std::string dump;
  for (const Pair& pair : ScanAll(engine)) {
    const ReadResult read = Get(engine, pair.key);
    if (!read.found || read.value != pair.value || read.version != pair.version ||
        read.expiry_unix_ms != pair.expiry_unix_ms) {
      return absl::DataLossError(absl::StrCat("Scan and Read differ about ", Show(pair.key)));
    }
    absl::StrAppend(&dump, absl::BytesToHexString(pair.key), "\t",
                    absl::BytesToHexString(pair.value), "\t", pair.version, "\t",
                    pair.expiry_unix_ms, "\n");
  }
  return dump;
}

std::map<std::string, GoldenPair> ParseDump(const std::string& dump) {
  std::map<std::string, GoldenPair> content;
  for (const std::string& line : SplitLines(dump)) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    GoldenPair& pair = content[absl::HexStringToBytes(fields.at(0))];
    pair.value = absl::HexStringToBytes(fields.at(1));
    if (!absl::SimpleAtoi(fields.at(3), &pair.expiry_unix_ms)) pair.expiry_unix_ms = UINT64_MAX;
  }
  return content;
}

}  // namespace lodgekv::test
