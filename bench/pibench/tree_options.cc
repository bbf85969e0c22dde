#include "bench/pibench/tree_options.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "index/registry.h"

namespace lodgekv::pibench {
namespace {

// Empty if the variable is not set.
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::Status Refuse(const char* name, const std::string& value, const char* takes) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is '", value, "'; it takes ", takes));
}

absl::Status ReadSwitch(const char* name, bool& value) {
  const std::string text = Variable(name);
  if (text.empty() || absl::SimpleAtob(text, &value)) return absl::OkStatus();
  return Refuse(name, text, "true or false");
}

absl::Status ReadDurability(bool& process_durability) {
  const std::string text = Variable("LODGEKV_DURABILITY");
  process_durability = text == "process";
  if (text.empty() || text == "medium" || text == "process") return absl::OkStatus();
  return Refuse("LODGEKV_DURABILITY", text, "medium or process");
}

absl::Status ReadEngineOptions(std::map<std::string, std::string>& engine_options) {
  constexpr char kVariable[] = "LODGEKV_ENGINE_OPTIONS";
  const std::string text = Variable(kVariable);
  const std::vector<std::string> options = absl::StrSplit(text, ',', absl::SkipWhitespace());
  for (const std::string& option : options) {
    const size_t equals = option.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return Refuse(kVariable, text, "NAME=VALUE,NAME=VALUE");
    }
    engine_options[option.substr(0, equals)] = option.substr(equals + 1);
  }
  return absl::OkStatus();
}

[[noreturn]] void EndAfterMediumFailure(const std::string& what) {
  std::fprintf(stderr, "pibench: %s\n", what.c_str());
  std::_Exit(1);
}

}  // namespace

absl::StatusOr<StoreOptions> StoreOptionsFor(std::string_view engine,
                                             const tree_options_t& options) {
  absl::StatusOr<const EngineInfo*> info = FindEngine(engine);
  if (!info.ok()) return info.status();
  StoreOptions store;
  store.engine = std::string(engine);
  if ((*info)->persistent) {
    if (options.pool_path.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "engine ", store.engine, " needs a pool: give PiBench's option --pool_path"));
    }
    store.pool_path = options.pool_path;
    store.pool_size_bytes = options.pool_size;
  }
  const bool words = options.key_size == 8 && options.value_size == 8;
  store.key_format = words ? KeyFormat::kFixed64 : KeyFormat::kBytes;
  store.on_medium_failure = EndAfterMediumFailure;
  for (const absl::Status& read :
       {ReadEngineOptions(store.engine_options),
        ReadSwitch("LODGEKV_INLINE_PAIRS", store.inline_pairs),
        ReadSwitch("LODGEKV_ALLOW_VOLATILE_MEDIUM", store.allow_volatile_medium),
        ReadDurability(store.process_durability)}) {
    if (!read.ok()) return read;
  }
  return store;
}

}  // namespace lodgekv::pibench
