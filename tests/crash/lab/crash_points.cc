#include "tests/crash/lab/crash_points.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace lodgekv::test {
namespace {

// Finds the string literals passed as the last argument of calls that begin with `call`. Calls
// without a literal there, such as definitions, are skipped.
void FindAll(std::string_view text, std::string_view call,
             std::set<std::string, std::less<>>* names) {
  for (size_t at = text.find(call); at != text.npos; at = text.find(call, at)) {
    at += call.size();
    const size_t quote = text.find('"', at);
    if (quote == text.npos || text.substr(at, quote - at).find_first_of(";{}") != text.npos) {
      continue;
    }
    const size_t end = text.find('"', quote + 1);
    names->emplace(text.substr(quote + 1, end - quote - 1));
  }
}

// In the folder of an engine that is compiled and not registered, and so has no rows.
bool IsOfUnregisteredEngine(const std::filesystem::path& in_folder) {
  const std::vector<std::string> engines = absl::StrSplit(LODGEKV_UNREGISTERED_ENGINES, ',');
  return std::find(engines.begin(), engines.end(), in_folder.begin()->string()) != engines.end();
}

}  // namespace

NamesInSources ReadNames(const std::filesystem::path& folder) {
  NamesInSources names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (IsOfUnregisteredEngine(entry.path().lexically_relative(folder))) continue;
    if (!absl::EndsWith(path, ".cc") && !absl::EndsWith(path, ".h")) continue;
    if (absl::EndsWith(path, "_test.cc")) continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string source = std::move(text).str();
    FindAll(source, "LODGEKV_CRASH_POINT(", &names.crash_points);
    FindAll(source, "Canary(", &names.canaries);  // of Medium, Tracer and Journal
  }
  return names;
}

}  // namespace lodgekv::test
