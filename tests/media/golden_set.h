// The pools of tests/media/pools: their history, and the form of their dumps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/store.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

struct GoldenPool {
  EngineCase of;
  std::string name;
};
// One for each persistent engine, key format, and with write buffers where they are an option.
const std::vector<GoldenPool>& GoldenPools();

// How a golden pool is created and opened: a file without protection from power cuts.
StoreOptions GoldenOptions(const GoldenPool& golden, const std::string& path);

// Puts, updates, deletes, atomic groups: the history of every golden pool. An error names the
// operation.
absl::Status WriteGoldenHistory(const GoldenPool& golden, Engine& engine);

// The result of the history, in key order; without versions, which the engine assigns.
struct GoldenPair {
  std::string value;
  uint64_t expiry_unix_ms = 0;

  bool operator==(const GoldenPair&) const = default;
};
std::map<std::string, GoldenPair> GoldenContent(const GoldenPool& golden);

// One line per pair, "key value version expiry", key and value in hex, in order. By Scan; every
// pair is compared with Read.
absl::StatusOr<std::string> DumpEngine(Engine& engine);
// The content of a dump without its versions.
std::map<std::string, GoldenPair> ParseDump(const std::string& dump);

inline constexpr uint64_t kGoldenAppliedIndex = 4242;

}  // namespace lodgekv::test
