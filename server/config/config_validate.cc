// Rules across the fields of a configuration, and for the engines of this build.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "index/registry.h"
#include "server/base/limits.h"
#include "server/config/config.h"
#include "server/config/config_values.h"

namespace lodgekv::server {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::string_view kOff = "off";

absl::Status Invalid(std::string_view message) {
  return absl::InvalidArgumentError({message.data(), message.size()});
}

// host:port or [IPv6]:port; the host without brackets, or empty.
bool SplitAddress(std::string_view address, std::string_view& host, std::string_view& port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return false;
  host = address.substr(0, colon);
  port = address.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return false;
  }
  return !host.empty();
}

bool IsPort(std::string_view text) {
  unsigned port = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && stop == text.data() + text.size() && port <= 65'535;
}

absl::Status CheckAddress(std::string_view field, std::string_view address, bool unix_allowed) {
  if (unix_allowed && address.substr(0, kUnixPrefix.size()) == kUnixPrefix) {
    if (address.size() > kUnixPrefix.size()) return absl::OkStatus();
    return Invalid(
        fmt::format("{} is '{}'; a unix socket needs a path: unix:/run/x", field, address));
  }
  std::string_view host;
  std::string_view port;
  if (SplitAddress(address, host, port) && IsPort(port)) return absl::OkStatus();
  return Invalid(fmt::format("{} is '{}'; it takes host:port or [IPv6]:port{}", field, address,
                             unix_allowed ? " or unix:/path" : " or off"));
}

absl::Status CheckPlaintext(std::string_view field, std::string_view address,
                            const Config& config) {
  if (config.tls() || config.allow_plaintext || IsLoopbackAddress(address)) {
    return absl::OkStatus();
  }
  return Invalid(fmt::format(
      "{} is '{}', which other machines can reach, and keys and values would cross the network in "
      "plain text; set tls_cert_file and tls_key_file, or listen on 127.0.0.1, or set "
      "allow_plaintext where the network itself is trusted",
      field, address));
}

// Whether the fields are consistent. The files themselves are read by server/tls.
absl::Status CheckTlsFields(const Config& config) {
  if (config.tls_cert_file.empty() != config.tls_key_file.empty()) {
    const bool no_key = config.tls_key_file.empty();
    return Invalid(fmt::format("{} is given without {}: TLS needs both",
                               no_key ? "tls_cert_file" : "tls_key_file",
                               no_key ? "tls_key_file" : "tls_cert_file"));
  }
  if (!config.tls_ca_file.empty() && !config.tls()) {
    return Invalid(
        "tls_ca_file is given without tls_cert_file and tls_key_file: clients show their "
        "certificates to a server that has one itself");
  }
  return absl::OkStatus();
}

bool SamePort(std::string_view a, std::string_view b) {
  const bool any_free = a.size() >= 2 && a.substr(a.size() - 2) == ":0";
  return !any_free && a != kOff && a == b;
}

absl::Status CheckAddressesDiffer(const Config& config) {
  const std::array<std::pair<std::string_view, std::string_view>, 4> addresses{
      {{"listen", config.listen},
       {"admin_listen", config.admin_listen},
       {"metrics_listen", config.metrics_listen},
       {"health_listen", config.health_listen}}};
  for (size_t i = 0; i < addresses.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!SamePort(addresses[i].second, addresses[j].second)) continue;
      return Invalid(fmt::format("{} ({}) and {} ({}) must differ from each other",
                                 addresses[j].first, addresses[j].second, addresses[i].first,
                                 addresses[i].second));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAddresses(const Config& config) {
  absl::Status status = CheckAddress("listen", config.listen, true);
  if (status.ok()) status = CheckAddress("admin_listen", config.admin_listen, true);
  if (status.ok() && config.metrics_listen != kOff) {
    status = CheckAddress("metrics_listen", config.metrics_listen, false);
  }
  if (status.ok() && config.health_listen != kOff) {
    status = CheckAddress("health_listen", config.health_listen, false);
  }
  if (status.ok()) status = CheckTlsFields(config);
  if (status.ok()) status = CheckPlaintext("listen", config.listen, config);
  if (status.ok()) status = CheckPlaintext("admin_listen", config.admin_listen, config);
  return status.ok() ? CheckAddressesDiffer(config) : status;
}

absl::Status CheckLimits(const Config& config) {
  const uint64_t largest_pair = config.max_key_size + config.max_value_size;
  if (config.max_batch_size < largest_pair) {
    return Invalid(
        fmt::format("max_batch_size is {}; it must hold one key and value of the largest sizes, {}",
                    FormatSize(config.max_batch_size), FormatSize(largest_pair)));
  }
  const uint64_t largest_work = std::max(config.max_batch_size, config.scan_page_size);
  if (config.max_inflight_size < largest_work) {
    return Invalid(fmt::format(
        "max_inflight_size is {}; it must hold one batch (max_batch_size) and one page of a scan "
        "(scan_page_size), {}",
        FormatSize(config.max_inflight_size), FormatSize(largest_work)));
  }
  return absl::OkStatus();
}

absl::Status CheckJournal(const Config& config) {
  if (config.journal_size != 0 && config.journal_size < kLeastJournalSize) {
    return Invalid(
        fmt::format("journal_size is {}; it must be {} to {}, or 0 for an eighth of the pool",
                    FormatSize(config.journal_size), FormatSize(kLeastJournalSize),
                    FormatSize(kJournalSize.max_value)));
  }
  if (!config.journal_path.empty() && config.journal_path == config.pool) {
    return Invalid(fmt::format(
        "journal_path is '{}', the pool itself; it must be a file of its own, or empty for one "
        "beside the pool",
        config.journal_path));
  }
  return absl::OkStatus();
}

absl::Status CheckPoolFields(const Config& config, bool persistent) {
  if (persistent && config.pool.empty()) {
    return Invalid(fmt::format(
        "no pool is given, and engine {} keeps its data in one: set pool (--pool) to a file, a "
        "poolset file or a device",
        config.engine));
  }
  if (!persistent && (config.pool_must_exist || !config.pool_identity_file.empty())) {
    return Invalid(fmt::format(
        "pool_must_exist and pool_identity_file are about a pool, and engine {} has none: leave "
        "them out",
        config.engine));
  }
  if (!config.pool_identity_file.empty() && config.pool_identity_file == config.pool) {
    return Invalid(
        fmt::format("pool_identity_file is '{}', the pool itself; it must be a file of its own",
                    config.pool_identity_file));
  }
  return absl::OkStatus();
}

absl::Status CheckStorage(const Config& config) {
  const auto engine = FindEngine(config.engine);
  if (!engine.ok()) return engine.status();
  const auto options = OptionValues::Parse((*engine)->options, config.engine_options);
  if (!options.ok()) return options.status();
  if (config.inline_pairs && config.key_format != "bytes") {
    return Invalid(fmt::format("inline_pairs goes with key_format bytes only; key_format is {}",
                               config.key_format));
  }
  const absl::Status status = CheckPoolFields(config, (*engine)->persistent);
  return status.ok() ? CheckJournal(config) : status;
}

}  // namespace

bool IsLoopbackAddress(std::string_view address) {
  if (address.substr(0, kUnixPrefix.size()) == kUnixPrefix) return true;
  std::string_view host;
  std::string_view port;
  if (!SplitAddress(address, host, port)) return false;
  const bool numeric = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (numeric && host.substr(0, 4) == "127.");
}

absl::Status ValidateConfig(const Config& config) {
  absl::Status status = CheckAddresses(config);
  if (status.ok()) status = CheckLimits(config);
  if (status.ok()) status = CheckStorage(config);
  return status;
}

}  // namespace lodgekv::server
