#include "tests/support/engine_case.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include "index/registry.h"

namespace lodgekv::test {
namespace {

// The options that set how many pairs a node holds; engines share these names.
constexpr std::array<std::string_view, 2> kNodeSizeOptions = {"leaf_slots", "node_slots"};

bool IsNodeSize(const EngineOption& option) {
  return std::find(kNodeSizeOptions.begin(), kNodeSizeOptions.end(), option.name) !=
         kNodeSizeOptions.end();
}

// The size of a write buffer, where none is the default.
bool IsSpareBuffer(const EngineOption& option) {
  return option.name == "write_buffer_pairs" && option.default_value == 0;
}

template <class Wanted>
std::vector<EngineCase> CasesWhere(Wanted wanted) {
  std::vector<EngineCase> cases;
  for (const EngineInfo* engine : AllEngines()) {
    if (!wanted(*engine)) continue;
    const auto has = [&](auto is) {
      return std::any_of(engine->options.begin(), engine->options.end(), is);
    };
    for (const bool small : {false, true}) {
      if (small && !has(IsNodeSize)) continue;
      cases.push_back({engine, KeyFormat::kBytes, false, small});
      cases.push_back({engine, KeyFormat::kBytes, true, small});
      cases.push_back({engine, KeyFormat::kFixed64, false, small});
      if (!has(IsSpareBuffer)) continue;
      cases.push_back({engine, KeyFormat::kBytes, false, small, true});
      cases.push_back({engine, KeyFormat::kFixed64, false, small, true});
    }
  }
  return cases;
}

}  // namespace

std::string EngineCase::Name() const {
  std::string name(engine->name);
  name += fixed64() ? "_fixed64" : "_bytes";
  if (inline_pairs) name += "_inline";
  if (small_nodes) name += "_small";
  if (buffered) name += "_buffered";
  return name;
}

std::ostream& operator<<(std::ostream& out, const EngineCase& engine_case) {
  return out << engine_case.Name();
}

std::vector<EngineCase> StoringCases() {
  return CasesWhere([](const EngineInfo& engine) { return !engine.discards; });
}

std::vector<EngineCase> StoringBytesCases() {
  std::vector<EngineCase> cases = StoringCases();
  std::erase_if(cases, [](const EngineCase& engine_case) { return engine_case.fixed64(); });
  return cases;
}

std::vector<EngineCase> VersionedCases() {
  std::vector<EngineCase> cases = StoringCases();
  std::erase_if(cases, [](const EngineCase& engine_case) { return !engine_case.has_versions(); });
  return cases;
}

std::vector<EngineCase> UnversionedCases() {
  std::vector<EngineCase> cases = StoringCases();
  std::erase_if(cases, [](const EngineCase& engine_case) { return engine_case.has_versions(); });
  return cases;
}

std::vector<EngineCase> PersistentCases() {
  return CasesWhere([](const EngineInfo& engine) { return engine.persistent; });
}

std::vector<EngineCase> BulkLoadCases() {
  return CasesWhere([](const EngineInfo& engine) { return engine.bulk_load != nullptr; });
}

std::vector<EngineCase> DiscardingCases() {
  return CasesWhere([](const EngineInfo& engine) { return engine.discards; });
}

std::map<std::string, std::string> NamedOptionsFor(const EngineCase& engine_case) {
  std::map<std::string, std::string> options;
  for (const EngineOption& option : engine_case.engine->options) {
    if (engine_case.small_nodes && IsNodeSize(option)) {
      options[std::string(option.name)] = std::to_string(option.min_value);
    }
    if (engine_case.buffered && IsSpareBuffer(option)) {
      options[std::string(option.name)] = std::to_string(option.max_value);
    }
  }
  return options;
}

OptionValues OptionsFor(const EngineCase& engine_case,
                        const std::map<std::string, std::string>& given) {
  std::map<std::string, std::string> options = NamedOptionsFor(engine_case);
  for (const auto& [name, value] : given) options[name] = value;
  auto values = OptionValues::Parse(engine_case.engine->options, options);
  if (!values.ok()) throw std::invalid_argument(values.status().ToString());
  return *std::move(values);
}

}  // namespace lodgekv::test
