// The layouts of this build are the released ones, and the ones that docs/media_format.md draws.
#include "tests/media/layouts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lodgekv::test {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// A change here is a new media version: raise it, keep the old pools readable or refused by name,
// and only then rewrite the file (tests/media/README.md).
TEST(LayoutsTest, AreTheReleasedOnes) {
  EXPECT_EQ(Layouts(), ReadFile(LODGEKV_MEDIA_DIR "/layouts.golden"));
}

// The part of the document that draws a struct: from the line with its name to the next empty line.
std::string Drawing(const std::string& document, const std::string& title) {
  const size_t begin = document.find("\n" + title + "\noffset");
  if (begin == std::string::npos) return {};
  return document.substr(begin, document.find("\n```", begin) - begin);
}

TEST(LayoutsTest, AreTheDrawnOnes) {
  const std::string document = ReadFile(LODGEKV_SOURCE_DIR "/docs/media_format.md");
  std::string drawing;
  std::string title;
  const std::string layouts = Layouts();
  for (const auto& part : absl::StrSplit(layouts, '\n', absl::SkipEmpty())) {
    const std::string line(part);
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "struct") {
      title = words[1];
      // The drawings of the pool have names of words.
      if (title == "StateSlot") title = "state slot";
      if (title == "ChunkRow") title = "chunk row";
      drawing = title == "Identity" ? document : Drawing(document, title);
      if (title == "Header") drawing = document;
      EXPECT_FALSE(drawing.empty()) << "docs/media_format.md draws no " << title;
      continue;
    }
    std::string name = words[1];
    if (name == "reserved") name = "(reserved|zero)";
    for (char& c : name) c = c == '_' ? '.' : c;  // "state word" or "state_word"
    const std::regex row(absl::StrCat("\\n +", words[2], " +", words[3], "  +", name));
    // The header's drawing lists the slots one by one.
    if (title == "Header" && words[1] == "slots") continue;
    EXPECT_TRUE(std::regex_search(drawing, row))
        << "docs/media_format.md, " << title << ": no line \"" << words[2] << " " << words[3] << " "
        << words[1] << "\"";
  }
}

}  // namespace
}  // namespace lodgekv::test
