// The configuration of the daemon: defaults, then one YAML file, then LODGEKV_* environment
// variables, then flags; later sources override earlier ones. One table (config_table.cc) has every
// field with its default, bounds and meaning. YAML, environment, flags, --help, --print-config and
// config/lodgekv.yaml all follow it.
//
// INVARIANT  A Config returned by LoadConfig is within the bounds of each field; one that
//            ValidateConfig accepts is consistent. LoadConfig opens no file but the configuration
//            file, ValidateConfig none; neither writes anything.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_reader.h"
#include "server/base/limits.h"
#include "server/tls/tls_files.h"

namespace lodgekv::server {

// Sizes are in bytes, durations in milliseconds. The defaults are in the table.
struct Config {
  std::string pool;
  uint64_t pool_size = 0;
  bool pool_must_exist = false;
  std::string pool_identity_file;
  std::string engine;
  std::map<std::string, std::string> engine_options;
  std::string key_format;
  bool inline_pairs = false;
  std::string durability;
  bool allow_volatile_medium = false;
  std::string journal_path;
  uint64_t journal_size = 0;
  uint64_t checkpoint_rate = 0;
  uint64_t recovery_threads = 0;

  std::string listen;
  std::string admin_listen;
  std::string metrics_listen;
  std::string health_listen;
  std::string tls_cert_file;
  std::string tls_key_file;
  std::string tls_ca_file;
  uint64_t tls_refresh_ms = 0;
  bool allow_plaintext = false;

  uint64_t max_connections = 0;
  uint64_t max_connections_per_peer = 0;
  uint64_t max_connection_rate_per_peer = 0;
  uint64_t max_connection_burst_per_peer = 0;
  uint64_t connection_idle_ms = 0;
  uint64_t connection_age_ms = 0;
  uint64_t keepalive_time_ms = 0;
  uint64_t keepalive_timeout_ms = 0;
  uint64_t handshake_timeout_ms = 0;
  uint64_t message_timeout_ms = 0;
  uint64_t max_unfinished_size = 0;
  uint64_t max_unfinished_total = 0;
  uint64_t max_resets_per_second = 0;
  uint64_t max_invalid_size_per_second = 0;
  uint64_t max_offences_per_peer = 0;
  uint64_t offence_forgiven_after_ms = 0;

  uint64_t threads = 0;
  uint64_t scan_threads = 0;
  uint64_t scan_nice = 0;
  uint64_t write_threads = 0;
  uint64_t group_operations = 0;
  uint64_t session_operations = 0;
  uint64_t max_streams_per_connection = 0;
  uint64_t max_key_size = 0;
  uint64_t max_value_size = 0;
  uint64_t max_batch_size = 0;
  uint64_t max_batch_operations = 0;
  uint64_t max_inflight_operations = 0;
  uint64_t max_inflight_size = 0;
  uint64_t connection_share = 0;
  uint64_t peer_share = 0;
  uint64_t answer_timeout_ms = 0;
  uint64_t scan_page_items = 0;
  uint64_t scan_page_size = 0;

  std::string log_format;
  std::string log_level;
  uint64_t slow_request_ms = 0;
  uint64_t drain_delay_ms = 0;
  uint64_t drain_grace_ms = 0;
  bool core_dumps = false;

  Limits RequestLimits() const;
  bool tls() const { return !tls_cert_file.empty(); }
  TlsFiles tls_files() const { return {tls_cert_file, tls_key_file, tls_ca_file}; }
};

enum class FieldKind { kText, kChoice, kSwitch, kCount, kSize, kDuration, kOptions };

using OptionMap = std::map<std::string, std::string>;
using FieldMember =
    std::variant<std::string Config::*, uint64_t Config::*, bool Config::*, OptionMap Config::*>;

struct ConfigField {
  std::string_view name;  // in YAML; the flag has - for _, the variable is LODGEKV_ and upper case
  FieldKind kind;
  std::string_view default_text;  // kText, kChoice, kSwitch
  LimitRange range;               // kCount, kSize, kDuration: default and bounds
  std::string_view choices;       // kChoice: separated by |
  std::string_view doc;
  FieldMember member;
  bool reloadable = false;  // SIGHUP applies a change; without it a change needs a restart
};

struct ConfigSection {
  std::string_view title;
  std::span<const ConfigField> fields;
};

std::span<const ConfigSection> ConfigSections();

// Null when there is none.
const ConfigField* FindConfigField(std::string_view name);

std::string FlagName(const ConfigField& field);         // --pool-size
std::string EnvironmentName(const ConfigField& field);  // LODGEKV_POOL_SIZE

// Sets one field from text. Errors name `source`, the field, the text and what would be valid.
absl::Status SetConfigField(Config& config, const ConfigField& field, std::string_view text,
                            std::string_view source);

// The defaults of the table.
Config DefaultConfig();

// Where values come from. Each flag is a field and its text; each --engine-option K=V is in
// engine_options and is added to the options of the sources before it.
struct ConfigSources {
  std::string yaml_path;                 // empty: no file
  std::vector<std::string> environment;  // NAME=text, others than LODGEKV_* are ignored
  std::vector<std::pair<const ConfigField*, std::string>> flags;
  std::vector<std::string> engine_options;
};

struct LoadedConfig {
  Config config;
  std::vector<std::string> warnings;  // a LODGEKV_ variable that looks like a misspelt field
};

// Reads all sources, field by field. The file may be a pipe (--config <(...)) if the caller may
// block.
absl::StatusOr<LoadedConfig> LoadConfig(const ConfigSources& sources,
                                        FileKind kind = FileKind::kAny);

// Checks everything beyond a single field: bounds across fields, addresses, the engine and its
// options.
absl::Status ValidateConfig(const Config& config);

// A field's value as YAML.
std::string FormatConfigField(const Config& config, const ConfigField& field);

// The configuration as a YAML file with a comment on each field. For DefaultConfig() it is
// config/lodgekv.yaml.
std::string RenderConfig(const Config& config);

// True where listening without TLS is safe: 127.0.0.0/8, ::1, localhost, unix sockets.
bool IsLoopbackAddress(std::string_view address);

}  // namespace lodgekv::server
