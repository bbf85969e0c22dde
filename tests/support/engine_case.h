// What a parameterised test runs on: an engine of the registry, a key format, and a size of nodes.
// Engines are found by registration alone: a further engine needs no line in any test.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "index/engine_info.h"

namespace lodgekv::test {

struct EngineCase {
  const EngineInfo* engine = nullptr;
  KeyFormat key_format = KeyFormat::kBytes;
  bool inline_pairs = false;
  bool small_nodes = false;  // nodes as small as the engine allows: a split every few operations

  bool has_versions() const { return key_format == KeyFormat::kBytes && !inline_pairs; }
  bool fixed64() const { return key_format == KeyFormat::kFixed64; }
  // lodgetree_bytes, lodgetree_fixed64_small, ...
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

// Every engine that stores what it is given, in each key format, with and without small nodes.
std::vector<EngineCase> StoringCases();
// Those of them whose keys and values are byte strings.
std::vector<EngineCase> StoringBytesCases();
// Those of them that have versions and expiry, and the others.
std::vector<EngineCase> VersionedCases();
std::vector<EngineCase> UnversionedCases();
// Those of them that survive a restart.
std::vector<EngineCase> PersistentCases();
// Engines that discard what they are given.
std::vector<EngineCase> DiscardingCases();

// The engine's options for a case; `given` goes over them.
OptionValues OptionsFor(const EngineCase& engine_case,
                        const std::map<std::string, std::string>& given = {});

}  // namespace lodgekv::test
