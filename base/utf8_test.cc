#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace lodgekv {
namespace {

using namespace std::string_literals;

TEST(Utf8Test, TellsTheFirstCharacter) {
  const struct {
    std::string text;
    uint32_t code;
    size_t bytes;
  } cases[] = {{"a", 'a', 1},
               {"\0x"s, 0, 1},
               {"\x7f", 0x7f, 1},
               {"\xc2\x80", 0x80, 2},
               {"\xdf\xbf", 0x7ff, 2},
               {"\xe0\xa0\x80", 0x800, 3},
               {"\xed\x9f\xbf", 0xd7ff, 3},
               {"\xef\xbf\xbf", 0xffff, 3},
               {"\xf0\x90\x80\x80", 0x10000, 4},
               {"\xf4\x8f\xbf\xbf", 0x10ffff, 4}};
  for (const auto& [text, code, bytes] : cases) {
    const auto character = FirstCharacter(text + "z");
    ASSERT_TRUE(character) << code;
    EXPECT_EQ(character->code, code);
    EXPECT_EQ(character->bytes, bytes);
  }
}

TEST(Utf8Test, WhatIsNoCharacterIsNone) {
  for (const std::string& text :
       {"\x80"s, "\xbf"s, "\xc0\xaf"s, "\xc1\xbf"s, "\xc2"s, "\xc2z"s, "\xe0\x9f\xbf"s, "\xe2\x82"s,
        "\xed\xa0\x80"s, "\xf0\x8f\xbf\xbf"s, "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s,
        "\xf0\x90\x80"s, "\xff"s}) {
    EXPECT_FALSE(FirstCharacter(text)) << ::testing::PrintToString(text);
  }
}

TEST(Utf8Test, PlainIsWhatMovesNoCursor) {
  for (const std::string& text :
       {""s, "a b~"s, "gr\xc3\xbc\xc3\x9f"s, "\xc2\xa0"s, "\xe6\xbc\xa2\xf0\x9f\x90\x88"s}) {
    EXPECT_TRUE(IsPlain(text)) << text;
  }
  for (const std::string& text :
       {"a\n"s, "\t"s, "\x1b[31m"s, "\0"s, "\x7f"s,
        "\xc2\x9b"
        "31m"s,
        "\x9b"s, "\xe2\x80\xa8"s, "\xe2\x80\xae"s, "\xe2\x81\xa6"s, "\xef\xbb\xbf"s, "ok\xff"s}) {
    EXPECT_FALSE(IsPlain(text)) << ::testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace lodgekv
