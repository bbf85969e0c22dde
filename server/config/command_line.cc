#include "server/config/command_line.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <map>
#include <utility>
#include <vector>

#include "base/version.h"
#include "index/registry.h"
#include "server/tls/tls_material.h"

namespace lodgekv::server {
namespace {

constexpr const char* kExitCodes = R"(
Exit codes:
  0   clean shutdown
  1   cannot listen, open or close the pool, or a sync failed; the log says which
  2   the command line or the configuration is wrong
  65  libpmemobj's own part of the pool is damaged: restore a backup, a restart does not help
  66  a file of the pool was deleted, replaced or cut short while it was served: put it back
      before the next start
  74  a page of the pool cannot be read: restore a backup, a restart does not help
)";

std::string Footer() {
  std::string text = "Engines of this build:\n";
  for (const EngineInfo* engine : AllEngines()) {
    text += fmt::format("  {:<12} {}\n", engine->name, engine->summary);
  }
  return text +
         "\nEach field can also stand in the YAML file, or in an environment variable "
         "LODGEKV_<FIELD>;\n"
         "flags come before variables, variables before the file. --print-config shows all "
         "fields.\n"
         "SIGHUP rereads file, variables and flags and applies the fields marked \"SIGHUP applies "
         "it\".\n" +
         kExitCodes;
}

struct Parsed {
  std::string config_path;
  std::map<const ConfigField*, std::string> texts;
  std::vector<std::string> engine_options;
  bool print_config = false;
  bool check_config = false;
};

void AddField(CLI::App& app, const ConfigField& field, Parsed& parsed) {
  if (field.kind == FieldKind::kOptions) {
    app.add_option("--engine-option", parsed.engine_options,
                   "NAME=VALUE, an option of the engine; may be repeated")
        ->allow_extra_args(false);
    return;
  }
  const auto keep = [&parsed, &field](const std::string& text) { parsed.texts[&field] = text; };
  std::string doc(field.doc);
  for (char& c : doc) {
    if (c == '\n') c = ' ';
  }
  if (field.reloadable) doc += " SIGHUP applies it.";
  if (field.kind == FieldKind::kSwitch) {
    app.add_flag_function(
        FlagName(field) + "{true}",
        [&app, keep, name = FlagName(field)](int64_t) {
          keep(app.get_option(name)->as<std::string>());
        },
        doc);
  } else {
    app.add_option_function<std::string>(FlagName(field), keep, doc)
        ->default_str(FormatConfigField(DefaultConfig(), field));
  }
}

ConfigSources Sources(const Parsed& parsed, const char* const* environment) {
  ConfigSources sources;
  sources.yaml_path = parsed.config_path;
  sources.engine_options = parsed.engine_options;
  for (const auto& [field, text] : parsed.texts) sources.flags.emplace_back(field, text);
  for (const char* const* line = environment; *line != nullptr; ++line) {
    sources.environment.emplace_back(*line);
  }
  return sources;
}

ExitNow Wrong(std::string_view message) {
  return {kExitConfig, fmt::format("lodgekvd: {}\n", message), ""};
}

std::string Lines(const std::vector<std::string>& warnings) {
  std::string lines;
  for (const std::string& warning : warnings) lines += fmt::format("lodgekvd: {}\n", warning);
  return lines;
}

// Checks the TLS files of a valid configuration.
ExitNow CheckFiles(const LoadedConfig& loaded) {
  std::vector<std::string> warnings = loaded.warnings;
  if (loaded.config.tls()) {
    const auto tls = LoadTlsMaterial(loaded.config.tls_files(), std::time(nullptr));
    if (!tls.ok()) return Wrong(std::string(tls.status().message()));
    warnings.insert(warnings.end(), tls->warnings.begin(), tls->warnings.end());
  }
  return {0, "the configuration is valid\n", Lines(warnings)};
}

}  // namespace

std::variant<RunNow, ExitNow> ReadCommandLine(int argc, const char* const* argv,
                                              const char* const* environment) {
  CLI::App app("lodgekvd: a key-value server on persistent memory", "lodgekvd");
  Parsed parsed;
  app.footer(Footer());
  app.set_version_flag("--version", "lodgekvd " + DescribeBuild());
  app.add_option("--config", parsed.config_path, "The configuration file (YAML)");
  app.add_flag("--print-config", parsed.print_config,
               "Print the configuration in effect, with comments, and exit");
  app.add_flag("--check-config", parsed.check_config,
               "Check the configuration and the TLS files, touching no pool, and exit");
  for (const ConfigSection& section : ConfigSections()) {
    for (const ConfigField& field : section.fields) AddField(app, field, parsed);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return ExitNow{0, app.help(), ""};
  } catch (const CLI::CallForVersion&) {
    return ExitNow{0, "lodgekvd " + DescribeBuild() + "\n", ""};
  } catch (const CLI::ParseError& error) {
    return Wrong(fmt::format("{} (lodgekvd --help lists the flags)", error.what()));
  }
  ConfigSources sources = Sources(parsed, environment);
  absl::StatusOr<LoadedConfig> loaded = LoadConfig(sources);
  if (!loaded.ok()) return Wrong(std::string(loaded.status().message()));
  if (parsed.print_config) {
    return ExitNow{0, RenderConfig(loaded->config), Lines(loaded->warnings)};
  }
  const absl::Status status = ValidateConfig(loaded->config);
  if (!status.ok()) return Wrong(std::string(status.message()));
  if (parsed.check_config) return CheckFiles(*loaded);
  return RunNow{*std::move(loaded), std::move(sources)};
}

}  // namespace lodgekv::server
