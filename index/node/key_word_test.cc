#include "index/node/key_word.h"

#include <gtest/gtest.h>

#include <string>

namespace lodgekv {
namespace {

// Lengths around a word's and the one from which another way is taken.
TEST(SameTextTest, SeesADifferenceInEveryByteOfEveryLength) {
  for (size_t bytes = 0; bytes < 100; ++bytes) {
    // Not aligned, and surrounded by other bytes.
    const std::string a = "<" + std::string(bytes, 'k') + "a";
    std::string b = "--" + std::string(bytes, 'k') + "b";
    const std::string_view text_a = std::string_view(a).substr(1, bytes);
    const std::string_view text_b = std::string_view(b).substr(2, bytes);
    EXPECT_TRUE(SameText(text_a, text_b)) << bytes;
    EXPECT_EQ(bytes == 0, SameText(text_a.substr(0, 0), text_b)) << bytes;
    for (size_t at = 0; at < bytes; ++at) {
      ++b[2 + at];
      EXPECT_FALSE(SameText(text_a, text_b)) << at << " of " << bytes;
      --b[2 + at];
    }
  }
}

TEST(SameTextTest, APrefixIsAnotherText) {
  const std::string text(80, 'k');
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_FALSE(SameText(text, std::string_view(text).substr(0, bytes))) << bytes;
    EXPECT_FALSE(SameText(std::string_view(text).substr(0, bytes), text)) << bytes;
  }
}

}  // namespace
}  // namespace lodgekv
