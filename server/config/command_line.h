// The command line of lodgekvd.
#pragma once

#include <string>
#include <variant>

#include "server/config/config.h"

namespace lodgekv::server {

// Nothing to serve: print `text` and exit with `code`.
struct ExitNow {
  int code = 0;
  std::string text;      // to stdout when code is 0, else to stderr
  std::string warnings;  // to stderr
};

inline constexpr int kExitConfig = 2;  // the command line or the configuration is wrong
inline constexpr int kExitFailure = 1;
// A file of the pool was deleted, replaced or truncated while in use. EX_NOINPUT of sysexits.h.
inline constexpr int kExitPoolGone = 66;

// What to serve: the configuration, and its sources for a reload.
struct RunNow {
  LoadedConfig loaded;
  ConfigSources sources;
};

// Reads flags, the file that --config names, and `environment` (as main's environ).
std::variant<RunNow, ExitNow> ReadCommandLine(int argc, const char* const* argv,
                                              const char* const* environment);

}  // namespace lodgekv::server
