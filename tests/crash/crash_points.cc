#include "tests/crash/crash_points.h"

#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/match.h"

namespace lodgekv::test {
namespace {

void FindAll(const std::string& text, const char* pattern,
             std::set<std::string, std::less<>>* names) {
  const std::regex expression(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) {
    names->insert((*it)[1].str());
  }
}

}  // namespace

NamesInSources ReadNames(const std::filesystem::path& folder) {
  NamesInSources names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!absl::EndsWith(path, ".cc") && !absl::EndsWith(path, ".h")) continue;
    if (absl::EndsWith(path, "_test.cc")) continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    FindAll(text.str(), R"re(LODGEKV_CRASH_POINT\(\s*[^,()]+(?:\(\))?\s*,\s*"([^"]+)")re",
            &names.crash_points);
    FindAll(text.str(), R"re((?:\.|->)Canary\(\s*"([^"]+)")re", &names.canaries);
  }
  return names;
}

}  // namespace lodgekv::test
