// The configuration file as bytes: what LoadConfig accepts is within bounds and survives writing
// and reading; errors name their place.
#include <sys/mman.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "server/config/config.h"
#include "server/config/config_values.h"
#include "tests/fuzz/fuzz_target.h"

namespace lodgekv::server {
namespace {

// A file in memory with a path and replaceable content.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    FUZZ_REQUIRE(fd_ >= 0, "memfd_create");
  }
  const std::string& path() const { return path_; }
  void Write(std::string_view text) {
    FUZZ_REQUIRE(ftruncate(fd_, 0) == 0, path_);
    FUZZ_REQUIRE(pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()),
                 path_);
  }

 private:
  const int fd_;
  const std::string path_;
};

MemoryFile& File() {
  static auto* file = new MemoryFile;
  return *file;
}

// The planted bug: the upper bound of scan_page_items is not checked.
void LoadWithoutBound(std::string_view text, Config* config) {
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap() || !root["scan_page_items"].IsScalar()) return;
    const auto number = ParseCount(root["scan_page_items"].Scalar());
    if (number && *number > 0) config->scan_page_items = *number;
  } catch (const YAML::Exception&) {
    return;  // not of this bug
  }
}

absl::StatusOr<Config> Load(std::string_view text) {
  File().Write(text);
  absl::StatusOr<LoadedConfig> loaded = LoadConfig(
      {.yaml_path = File().path(), .environment = {}, .flags = {}, .engine_options = {}});
  if (loaded.ok()) return loaded->config;
  const std::string message(loaded.status().message());
  const bool of_bug = message.find("scan_page_items is '") != std::string::npos;
  if (!of_bug || !fuzz::BugIsPlanted()) return loaded.status();
  Config config = DefaultConfig();
  LoadWithoutBound(text, &config);
  return config;
}

void CheckBounds(const Config& config, const ConfigField& field) {
  const std::string shown = std::string(field.name) + ": " + FormatConfigField(config, field);
  if (const auto* number = std::get_if<uint64_t Config::*>(&field.member)) {
    FUZZ_REQUIRE(config.**number >= field.range.min_value, shown);
    FUZZ_REQUIRE(config.**number <= field.range.max_value, shown);
  }
  if (field.kind == FieldKind::kChoice) {
    const std::string value = config.*std::get<std::string Config::*>(field.member);
    const std::string choices = "|" + std::string(field.choices) + "|";
    FUZZ_REQUIRE(choices.find("|" + value + "|") != std::string::npos, shown);
    FUZZ_REQUIRE(value.find('|') == std::string::npos, shown);
  }
}

template <class Visit>
void ForEachField(Visit visit) {
  for (const ConfigSection& section : ConfigSections()) {
    for (const ConfigField& field : section.fields) visit(field);
  }
}

// No engine has options of other names.
bool HasPlainOptions(const Config& config) {
  for (const auto& [name, value] : config.engine_options) {
    const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    if (name.empty() || !std::all_of(name.begin(), name.end(), plain)) return false;
  }
  return true;
}

// As it would be printed, and read again.
void CheckRoundTrip(const Config& config) {
  static const Config defaults = DefaultConfig();
  std::string text;
  ForEachField([&](const ConfigField& field) {
    const std::string value = FormatConfigField(config, field);
    if (value == FormatConfigField(defaults, field)) return;
    text += std::string(field.name) + ": " + value + "\n";
  });
  const absl::StatusOr<Config> again = Load(text);
  FUZZ_REQUIRE(again.ok(), text + again.status().ToString());
  ForEachField([&](const ConfigField& field) {
    FUZZ_REQUIRE(FormatConfigField(*again, field) == FormatConfigField(config, field), text);
  });
}

// A file is one document: nothing follows its end. Within quotations, blocks and comments the mark
// is ordinary text.
void CheckAllIsRead(std::string_view text) {
  if (text.find_first_of("'\"|>#%") != std::string_view::npos) return;
  const size_t mark = text.find("\n---\n");
  const bool second = mark != std::string_view::npos &&
                      text.substr(0, mark).find(": ") != std::string_view::npos &&
                      text.find(": ", mark) != std::string_view::npos;
  FUZZ_REQUIRE(!second, text);
}

// Quoted parts of the file are verbatim: log and terminal escape them.
void CheckRefusal(const absl::Status& status) {
  const std::string message(status.message());
  FUZZ_REQUIRE(message.find(File().path()) != std::string::npos, message);
}

void CheckFile(std::string_view text) {
  const absl::StatusOr<Config> config = Load(text);
  if (!config.ok()) return CheckRefusal(config.status());
  ForEachField([&](const ConfigField& field) { CheckBounds(*config, field); });
  CheckAllIsRead(text);
  if (HasPlainOptions(*config)) CheckRoundTrip(*config);
  const absl::Status whole = ValidateConfig(*config);
  FUZZ_REQUIRE(whole.ok() || !whole.message().empty(), text);
}

}  // namespace
}  // namespace lodgekv::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lodgekv::server::CheckFile({reinterpret_cast<const char*>(data), size});
  return 0;
}
