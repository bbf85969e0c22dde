// The parameter of engine tests: an engine of the registry, a key format, a node size, and with or
// without write buffers, if an engine has them and they are off by default. Engines are found by
// registration alone: a new engine needs no line in any test.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "index/engine_info.h"

namespace lodgekv::test {

struct EngineCase {
  const EngineInfo* engine = nullptr;
  KeyFormat key_format = KeyFormat::kBytes;
  bool inline_pairs = false;
  bool small_nodes = false;  // the smallest nodes of the engine: a split every few operations
  bool buffered = false;     // the largest write buffers of an engine that has none by default

  bool has_versions() const { return key_format == KeyFormat::kBytes && !inline_pairs; }
  bool fixed64() const { return key_format == KeyFormat::kFixed64; }
  // lodgetree_bytes, lodgetree_fixed64_small, sptree_bytes_buffered, ...
  std::string Name() const;
};

std::ostream& operator<<(std::ostream& out, const EngineCase& engine_case);

// For INSTANTIATE_TEST_SUITE_P.
struct EngineCaseName {
  template <class ParamInfo>
  std::string operator()(const ParamInfo& info) const {
    return info.param.Name();
  }
};

// Every engine that stores data, in each key format, with and without small nodes and buffers.
std::vector<EngineCase> StoringCases();
// Those with byte strings as keys and values.
std::vector<EngineCase> StoringBytesCases();
// Those with versions and expiry, and the others.
std::vector<EngineCase> VersionedCases();
std::vector<EngineCase> UnversionedCases();
// Those that survive a restart.
std::vector<EngineCase> PersistentCases();
// Those that can be created by a bulk load.
std::vector<EngineCase> BulkLoadCases();
// Engines that discard all data.
std::vector<EngineCase> DiscardingCases();

// The engine's options for a case, by name; and parsed, overridden by `given`.
std::map<std::string, std::string> NamedOptionsFor(const EngineCase& engine_case);
OptionValues OptionsFor(const EngineCase& engine_case,
                        const std::map<std::string, std::string>& given = {});

}  // namespace lodgekv::test
