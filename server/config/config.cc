#include "server/config/config.h"

#include <spdlog/fmt/fmt.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "base/file_reader.h"
#include "server/config/config_values.h"

namespace lodgekv::server {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

constexpr std::string_view kEnvironmentPrefix = "LODGEKV_";
// All fields with their comments take some 15 KiB.
constexpr size_t kMaxFileSize = 1 << 20;

std::vector<std::string_view> FieldNames() {
  std::vector<std::string_view> names;
  for (const ConfigSection& section : ConfigSections()) {
    for (const ConfigField& field : section.fields) names.push_back(field.name);
  }
  return names;
}

std::string DidYouMean(std::string_view name) {
  const std::vector<std::string_view> names = FieldNames();
  const auto nearest = NearestName(name, names);
  return nearest ? fmt::format("; did you mean '{}'?", *nearest) : "";
}

std::string FormatNumber(FieldKind kind, uint64_t value) {
  switch (kind) {
    case FieldKind::kSize: return FormatSize(value);
    case FieldKind::kDuration: return FormatDuration(value);
    default: return fmt::format("{}", value);
  }
}

std::string DescribeExpected(const ConfigField& field) {
  switch (field.kind) {
    case FieldKind::kChoice: {
      std::string choices;
      for (const char c : field.choices)
        choices += c == '|' ? std::string(", ") : std::string(1, c);
      return "one of " + choices;
    }
    case FieldKind::kSwitch: return "true or false";
    case FieldKind::kSize:
    case FieldKind::kDuration:
    case FieldKind::kCount:
      return fmt::format("{} from {} to {}",
                         field.kind == FieldKind::kSize       ? "a size such as 64MiB"
                         : field.kind == FieldKind::kDuration ? "a duration such as 500ms or 10s"
                                                              : "a whole number",
                         FormatNumber(field.kind, field.range.min_value),
                         FormatNumber(field.kind, field.range.max_value));
    case FieldKind::kText: return "text";
    case FieldKind::kOptions: return "name=value, separated by commas";
  }
  return "";
}

absl::Status BadValueError(const ConfigField& field, std::string_view text,
                           std::string_view source) {
  return absl::InvalidArgumentError(fmt::format("{}: {} is '{}'; it takes {}", source, field.name,
                                                text, DescribeExpected(field)));
}

std::optional<uint64_t> ParseNumber(FieldKind kind, std::string_view text) {
  switch (kind) {
    case FieldKind::kSize: return ParseSize(text);
    case FieldKind::kDuration: return ParseDuration(text);
    default: return ParseCount(text);
  }
}

bool IsChoice(std::string_view choices, std::string_view text) {
  for (size_t begin = 0; begin <= choices.size();) {
    const size_t end = std::min(choices.find('|', begin), choices.size());
    if (choices.substr(begin, end - begin) == text) return true;
    begin = end + 1;
  }
  return false;
}

// Adds name=value,name=value to `options`. False when a part has no name or no '='.
bool AddOptions(std::string_view text, OptionMap& options) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) return false;
    options[std::string(part.substr(0, equals))] = part.substr(equals + 1);
    begin = end + 1;
  }
  return true;
}

absl::Status SetFromYaml(Config& config, const ConfigField& field, const YAML::Node& value,
                         std::string_view source) {
  if (field.kind == FieldKind::kOptions) {
    if (value.IsNull()) return absl::OkStatus();
    if (!value.IsMap()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} takes a map of option names to values", source, field.name));
    }
    OptionMap& options = config.*std::get<OptionMap Config::*>(field.member);
    for (const auto& entry : value) {
      if (!entry.second.IsScalar()) return BadValueError(field, "not a value", source);
      if (options.emplace(entry.first.Scalar(), entry.second.Scalar()).second) continue;
      return absl::InvalidArgumentError(
          fmt::format("{}: {} gives '{}' twice", source, field.name, entry.first.Scalar()));
    }
    return absl::OkStatus();
  }
  if (value.IsNull()) return BadValueError(field, "", source);
  if (!value.IsScalar()) {
    return absl::InvalidArgumentError(fmt::format("{}: {} takes a single value, {}", source,
                                                  field.name, DescribeExpected(field)));
  }
  return SetConfigField(config, field, value.Scalar(), source);
}

absl::Status SetFields(const YAML::Node& root, const std::string& path, Config& config) {
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap()) {
    return absl::InvalidArgumentError(
        fmt::format("config file '{}' is not a map of fields to values", path));
  }
  std::set<std::string> seen;
  for (const auto& entry : root) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const std::string source = fmt::format("{}:{}", path, entry.first.Mark().line + 1);
    const ConfigField* field = FindConfigField(name);
    if (field == nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("{}: unknown field '{}'{}", source, name, DidYouMean(name)));
    }
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(fmt::format("{}: {} is given twice", source, name));
    }
    absl::Status status = SetFromYaml(config, *field, entry.second, source);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Keeps the line where the latest document begins.
class DocumentLine final : public YAML::EventHandler {
 public:
  int line() const { return line_; }

  void OnDocumentStart(const YAML::Mark& mark) override { line_ = mark.line + 1; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  int line_ = 0;
};

// The file must be one document. yaml-cpp's Load ignores everything after the first, and its
// LoadAll does not terminate for some texts.
absl::Status CheckOneDocument(const std::string& text, const std::string& path) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentLine document;
  if (!parser.HandleNextDocument(document) || !parser) return absl::OkStatus();
  try {
    (void)parser.HandleNextDocument(document);
  } catch (const YAML::Exception&) {
    // The line is known; a syntax error after it does not matter.
  }
  return absl::InvalidArgumentError(
      fmt::format("{}:{}: a second document begins; a configuration must be one document", path,
                  document.line()));
}

absl::Status SetAllFields(const std::string& text, const std::string& path, Config& config) {
  const YAML::Node root = YAML::Load(text);
  const absl::Status status = CheckOneDocument(text, path);
  return status.ok() ? SetFields(root, path, config) : status;
}

absl::Status LoadYaml(const std::string& path, FileKind kind, Config& config) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kind, kMaxFileSize);
  if (!text.ok()) {
    return {text.status().code(),
            fmt::format("config file '{}' {}", path, std::string(text.status().message()))};
  }
  try {
    return SetAllFields(*text, path, config);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        fmt::format("config file '{}', line {}: {}", path, error.mark.line + 1, error.msg));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        fmt::format("config file '{}' cannot be parsed: {}", path, error.what()));
  }
}

// Variables of other programs may begin with our prefix (an orchestrator adds LODGEKV_SERVICE_HOST
// and the like), so an unknown one is no error. One that resembles a field is reported as a
// warning.
absl::Status LoadEnvironment(const std::vector<std::string>& environment, LoadedConfig& loaded) {
  for (const std::string& line : environment) {
    const size_t equals = line.find('=');
    if (line.rfind(kEnvironmentPrefix, 0) != 0 || equals == std::string::npos) continue;
    const std::string variable = line.substr(0, equals);
    std::string name = variable.substr(kEnvironmentPrefix.size());
    const bool upper = std::none_of(name.begin(), name.end(),
                                    [](unsigned char c) { return std::islower(c) != 0; });
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const ConfigField* field = upper ? FindConfigField(name) : nullptr;
    if (field == nullptr) {
      const std::string hint = DidYouMean(name);
      if (!hint.empty()) {
        loaded.warnings.push_back(fmt::format(
            "environment variable {} is not a field of the configuration{}", variable, hint));
      }
      continue;
    }
    absl::Status status = SetConfigField(loaded.config, *field, line.substr(equals + 1), variable);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status LoadFlags(const ConfigSources& sources, Config& config) {
  for (const auto& [field, text] : sources.flags) {
    absl::Status status = SetConfigField(config, *field, text, FlagName(*field));
    if (!status.ok()) return status;
  }
  for (const std::string& option : sources.engine_options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          fmt::format("--engine-option is '{}'; it takes name=value", option));
    }
    config.engine_options[option.substr(0, equals)] = option.substr(equals + 1);
  }
  return absl::OkStatus();
}

std::string Quoted(const std::string& text) {
  YAML::Emitter emitter;
  emitter << YAML::DoubleQuoted << text;
  return emitter.c_str();
}

std::string RenderComment(const ConfigField& field) {
  std::string text = "# ";
  for (const char c : field.doc) {
    text += c;
    if (c == '\n') text += "# ";
  }
  std::string facts;
  switch (field.kind) {
    case FieldKind::kChoice:
    case FieldKind::kCount:
    case FieldKind::kSize:
    case FieldKind::kDuration: facts = "Takes " + DescribeExpected(field) + ". "; break;
    default: break;
  }
  const Config defaults = DefaultConfig();
  return fmt::format("{}\n# {}Default: {}{}\n", text, facts, FormatConfigField(defaults, field),
                     field.reloadable ? ". SIGHUP applies it." : "");
}

}  // namespace

Limits Config::RequestLimits() const {
  return {.max_key_size = max_key_size,
          .max_value_size = max_value_size,
          .max_batch_size = max_batch_size,
          .max_batch_operations = max_batch_operations,
          .max_inflight_operations = max_inflight_operations,
          .max_inflight_size = max_inflight_size,
          .connection_share = connection_share,
          .peer_share = peer_share,
          .scan_page_items = scan_page_items,
          .scan_page_size = scan_page_size};
}

const ConfigField* FindConfigField(std::string_view name) {
  for (const ConfigSection& section : ConfigSections()) {
    for (const ConfigField& field : section.fields) {
      if (field.name == name) return &field;
    }
  }
  return nullptr;
}

std::string FlagName(const ConfigField& field) {
  std::string name = fmt::format("--{}", field.name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string EnvironmentName(const ConfigField& field) {
  std::string name = fmt::format("{}{}", kEnvironmentPrefix, field.name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

absl::Status SetConfigField(Config& config, const ConfigField& field, std::string_view text,
                            std::string_view source) {
  const bool understood = std::visit(
      Overloaded{
          [&](std::string Config::*member) {
            if (field.kind == FieldKind::kChoice && !IsChoice(field.choices, text)) return false;
            config.*member = text;
            return true;
          },
          [&](uint64_t Config::*member) {
            const std::optional<uint64_t> number = ParseNumber(field.kind, text);
            if (!number || *number < field.range.min_value || *number > field.range.max_value) {
              return false;
            }
            config.*member = *number;
            return true;
          },
          [&](bool Config::*member) {
            const std::optional<bool> value = ParseSwitch(text);
            if (value) config.*member = *value;
            return value.has_value();
          },
          [&](OptionMap Config::*member) { return AddOptions(text, config.*member); },
      },
      field.member);
  return understood ? absl::OkStatus() : BadValueError(field, text, source);
}

Config DefaultConfig() {
  Config config;
  for (const ConfigSection& section : ConfigSections()) {
    for (const ConfigField& field : section.fields) {
      if (const auto* member = std::get_if<uint64_t Config::*>(&field.member)) {
        config.** member = field.range.default_value;
      } else if (const auto* text = std::get_if<std::string Config::*>(&field.member)) {
        config.** text = field.default_text;
      }
    }
  }
  return config;
}

absl::StatusOr<LoadedConfig> LoadConfig(const ConfigSources& sources, FileKind kind) {
  LoadedConfig loaded{.config = DefaultConfig(), .warnings = {}};
  absl::Status status = absl::OkStatus();
  if (!sources.yaml_path.empty()) status = LoadYaml(sources.yaml_path, kind, loaded.config);
  if (status.ok()) status = LoadEnvironment(sources.environment, loaded);
  if (status.ok()) status = LoadFlags(sources, loaded.config);
  if (!status.ok()) return status;
  return loaded;
}

std::string FormatConfigField(const Config& config, const ConfigField& field) {
  return std::visit(
      Overloaded{
          [&](std::string Config::*member) {
            return field.kind == FieldKind::kText ? Quoted(config.*member) : config.*member;
          },
          [&](uint64_t Config::*member) { return FormatNumber(field.kind, config.*member); },
          [&](bool Config::*member) { return std::string(config.*member ? "true" : "false"); },
          [&](OptionMap Config::*member) {
            std::string text;
            for (const auto& [name, value] : config.*member) {
              text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name, Quoted(value));
            }
            return "{" + text + "}";
          },
      },
      field.member);
}

std::string RenderConfig(const Config& config) {
  std::string text =
      "# The configuration of lodgekvd. A variable LODGEKV_<FIELD> overrides a field of this file, "
      "a flag\n# --<field> overrides both. SIGHUP rereads all three and applies the fields marked "
      "\"SIGHUP applies\n# it\"; the others need a restart.\n";
  for (const ConfigSection& section : ConfigSections()) {
    text += fmt::format("\n# == {} ==\n", section.title);
    for (const ConfigField& field : section.fields) {
      text += fmt::format("\n{}{}: {}\n", RenderComment(field), field.name,
                          FormatConfigField(config, field));
    }
  }
  return text;
}

}  // namespace lodgekv::server
