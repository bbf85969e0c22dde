#include "bench/engine_bench/environment.h"

#include <sched.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/engine_bench/build_info.inc"

namespace lodgekv::bench {
namespace {

constexpr char kThpFolder[] = "/sys/kernel/mm/transparent_hugepage/";

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "unknown";
}

std::string Stripped(const std::string& text) {
  return std::string(absl::StripAsciiWhitespace(text));
}

// The value of the first line "name : value" or "name: value".
std::string Field(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() != 2 || Stripped(parts[0]) != name) continue;
    return Stripped(parts[1]);
  }
  return "unknown";
}

std::string Processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
  return absl::StrCat(allowed, " usable (online: ", FirstLine("/sys/devices/system/cpu/online"),
                      ")");
}

std::string Kernel() {
  utsname name{};
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat(name.sysname, " ", name.release, " ", name.machine);
}

// The active one of "always [madvise] never".
std::string HugePages(const std::string& file) {
  std::string line = FirstLine(kThpFolder + file);
  const size_t open = line.find('[');
  const size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return line;
  return line.substr(open + 1, close - open - 1);
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "not set" : value;
}

}  // namespace

bool ProcessorHasFlag(const std::string& flag) {
  std::istringstream flags(Field("/proc/cpuinfo", "flags"));
  for (std::string word; flags >> word;) {
    if (word == flag) return true;
  }
  return false;
}

Rows DescribeEnvironment() {
  const std::string sanitizer = kSanitizer;
  return {
      {"processor", Field("/proc/cpuinfo", "model name")},
      {"cores", Processors()},
      {"last-level cache", FirstLine("/sys/devices/system/cpu/cpu0/cache/index3/size")},
      {"memory", Field("/proc/meminfo", "MemTotal")},
      {"kernel", Kernel()},
      {"huge pages", absl::StrCat("anonymous: ", HugePages("enabled"),
                                  ", memory files, unasked: ", HugePages("shmem_enabled"))},
      {"PMEM_IS_PMEM_FORCE", Variable("PMEM_IS_PMEM_FORCE")},
      {"compiler", kCompiler},
      {"build type", sanitizer.empty() ? kBuildType : kBuildType + (" with " + sanitizer)},
      {"commit", kCommit},
  };
}

std::vector<std::string> EnvironmentWarnings() {
  std::vector<std::string> warnings;
  const std::string_view build = kBuildType;
  if ((build != "Release" && build != "RelWithDebInfo") || !std::string_view(kSanitizer).empty()) {
    warnings.push_back("this build is not optimised for speed: its times mean nothing");
  }
  if (!ProcessorHasFlag("constant_tsc")) {
    warnings.push_back("the time stamp counter changes its rate: latencies mean little");
  }
  return warnings;
}

}  // namespace lodgekv::bench
