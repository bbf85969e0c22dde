#include "client/lodgectl/text_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace lodgekv::lodgectl {
namespace {

using testing::HasSubstr;

std::string AllBytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  return bytes;
}

std::string RandomBytes(std::mt19937& random) {
  // Few values, so that escapes and backslashes are often adjacent.
  static constexpr char kBytes[] = {'\\', 't', 'n', 'x', '0', 'f', '\t', '\n', '\0', '\xff', '"'};
  std::string bytes(random() % 12, ' ');
  for (char& byte : bytes) byte = kBytes[random() % sizeof(kBytes)];
  return bytes;
}

std::string ErrorOfDecode(const std::string& text, Encoding encoding) {
  return std::string(Decode(text, encoding).status().message());
}

std::string ErrorOfParse(const std::string& line, RecordFormat format) {
  return std::string(ParseRecord(line, format, Encoding::kText).status().message());
}

TEST(EncodeTest, EveryByteRoundTrips) {
  for (Encoding encoding : {Encoding::kText, Encoding::kHex}) {
    const std::string text = Encode(AllBytes(), encoding);
    EXPECT_EQ(text.find_first_of("\t\n\r"), std::string::npos);
    EXPECT_EQ(Decode(text, encoding).value(), AllBytes());
  }
}

TEST(EncodeTest, RandomBytesRoundTrip) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string bytes = RandomBytes(random);
    ASSERT_EQ(Decode(Encode(bytes, Encoding::kText), Encoding::kText).value(), bytes);
  }
}

TEST(EncodeTest, PlainTextKeepsItsLook) {
  const std::string text = "/usr/share/doc/A B's \"x\" caf\xc3\xa9 \xff";
  EXPECT_EQ(Encode(text, Encoding::kText), text);
}

TEST(EncodeTest, EscapesAsDocumented) {
  EXPECT_EQ(Encode(std::string("a\tb\nc\\d\re\0f\x7f", 12), Encoding::kText),
            R"(a\tb\nc\\d\re\x00f\x7f)");
  EXPECT_EQ(Encode("a\xff", Encoding::kHex), "61ff");
}

TEST(DecodeTest, TakesBothCasesOfHexadecimal) {
  EXPECT_EQ(Decode(R"(\xFf\x0a)", Encoding::kText).value(), "\xff\n");
  EXPECT_EQ(Decode("fF", Encoding::kHex).value(), "\xff");
}

TEST(DecodeTest, NamesAnUnknownOrBrokenEscape) {
  EXPECT_THAT(ErrorOfDecode(R"(a\qb)", Encoding::kText), HasSubstr(R"(unknown escape \\q)"));
  EXPECT_THAT(ErrorOfDecode(R"(a\)", Encoding::kText), HasSubstr("unknown escape"));
  EXPECT_THAT(ErrorOfDecode(R"(\x4)", Encoding::kText), HasSubstr("unknown escape"));
  EXPECT_THAT(ErrorOfDecode(R"(\x4g)", Encoding::kText), HasSubstr("unknown escape"));
  EXPECT_THAT(ErrorOfDecode("abc", Encoding::kHex), HasSubstr("3 hexadecimal digits"));
  EXPECT_THAT(ErrorOfDecode("zz", Encoding::kHex), HasSubstr("'z' is not a hexadecimal digit"));
}

TEST(EscapeForTerminalTest, LeavesNothingThatMovesACursor) {
  EXPECT_EQ(EscapeForTerminal("a\tb\nc\\x"), "a\tb\nc\\x");
  EXPECT_EQ(EscapeForTerminal("gr\xc3\xbc\xc3\x9f \xe6\xbc\xa2"),
            "gr\xc3\xbc\xc3\x9f \xe6\xbc\xa2");
  EXPECT_EQ(EscapeForTerminal("\x1b[2J\r\x7f"), R"(\x1b[2J\x0d\x7f)");
  EXPECT_EQ(EscapeForTerminal("\xc2\x9b"
                              "2J\x9b\xff"),
            R"(\xc2\x9b2J\x9b\xff)");
  EXPECT_EQ(EscapeForTerminal("\xe2\x80\xae"), R"(\xe2\x80\xae)");
}

TEST(EncodeKeyTest, AHashAtTheBeginIsEscaped) {
  EXPECT_EQ(EncodeKey("#k#", Encoding::kText), R"(\x23k#)");
  EXPECT_EQ(EncodeKey("k#", Encoding::kText), "k#");
  EXPECT_EQ(EncodeKey("#", Encoding::kHex), "23");
}

// Else the first line of a file would seem to begin with one.
TEST(EncodeKeyTest, AByteOrderMarkAtTheBeginIsEscaped) {
  EXPECT_EQ(EncodeKey("\xef\xbb\xbfk\xef\xbb\xbf", Encoding::kText),
            "\\xef\\xbb\\xbfk\xef\xbb\xbf");
  EXPECT_EQ(EncodeKey("\xff\xfe", Encoding::kText), R"(\xff\xfe)");
  EXPECT_EQ(EncodeKey("\xfe\xff\t", Encoding::kText), R"(\xfe\xff\t)");
  EXPECT_EQ(EncodeKey("\xef\xbb\xbf", Encoding::kHex), "efbbbf");
  EXPECT_EQ(EncodeKey("\xef\xbb", Encoding::kText), "\xef\xbb");
}

TEST(TsvTest, SplitsAtTheTab) {
  const Record record = ParseRecord("a b\\tc\tv\\n", RecordFormat::kTsv, Encoding::kText).value();
  EXPECT_EQ(record.key, "a b\tc");
  EXPECT_EQ(record.value, "v\n");
}

TEST(TsvTest, WithoutATabTheValueIsEmpty) {
  const Record record = ParseRecord("key", RecordFormat::kTsv, Encoding::kText).value();
  EXPECT_EQ(record.key, "key");
  EXPECT_EQ(record.value, "");
}

TEST(TsvTest, RefusesASecondTabAndAnEmptyKey) {
  EXPECT_THAT(ErrorOfParse("a\tb\tc", RecordFormat::kTsv), HasSubstr("a second tab"));
  EXPECT_THAT(ErrorOfParse("\tb", RecordFormat::kTsv), HasSubstr("the key is empty"));
  EXPECT_THAT(ErrorOfParse("", RecordFormat::kTsv), HasSubstr("the key is empty"));
}

TEST(RecordTest, RoundTripsInEveryFormatAndEncoding) {
  std::mt19937 random(2);
  for (int i = 0; i < 5'000; ++i) {
    const Record record{RandomBytes(random) + "k", RandomBytes(random), std::nullopt};
    for (RecordFormat format : {RecordFormat::kTsv, RecordFormat::kJsonLines}) {
      for (Encoding encoding : {Encoding::kText, Encoding::kHex}) {
        const std::string line = FormatRecord(record, format, encoding);
        ASSERT_EQ(line.find('\n'), std::string::npos) << line;
        const Record again = ParseRecord(line, format, encoding).value();
        ASSERT_EQ(again.key, record.key) << line;
        ASSERT_EQ(again.value, record.value) << line;
      }
    }
  }
}

TEST(JsonLinesTest, WritesStringsWhereTheyAreUtf8) {
  EXPECT_EQ(FormatRecord({"k\"\t", "caf\xc3\xa9", std::nullopt}, RecordFormat::kJsonLines,
                         Encoding::kText),
            "{\"key\":\"k\\\"\\t\",\"value\":\"caf\xc3\xa9\"}");
  EXPECT_EQ(FormatRecord({"k\xff", "v", std::nullopt}, RecordFormat::kJsonLines, Encoding::kText),
            R"({"key_hex":"6bff","value":"v"})");
}

TEST(JsonLinesTest, KeepsTheExpiry) {
  const Record record{"k", "v", absl::FromUnixMillis(1'700'000'000'123)};
  const std::string line = FormatRecord(record, RecordFormat::kJsonLines, Encoding::kText);
  EXPECT_EQ(ParseRecord(line, RecordFormat::kJsonLines, Encoding::kText)->expire_time,
            record.expire_time);
}

TEST(JsonLinesTest, AMissingValueIsEmpty) {
  EXPECT_EQ(ParseRecord(R"({"key":"k"})", RecordFormat::kJsonLines, Encoding::kText)->value, "");
}

TEST(JsonLinesTest, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{", "not JSON"},
      {"[]", "not a JSON object"},
      {R"({"value":"v"})", "the key is empty"},
      {R"({"key":"k","valeu":"v"})", R"(unknown field "valeu")"},
      {R"({"key":"k","value":1})", "\"value\" is not a string"},
      {R"({"key":"k","key_hex":"6b"})", "both \"key\" and \"key_hex\""},
      {R"({"key_hex":"6"})", "1 hexadecimal digits"},
      {R"({"key":"k","expire_unix_ms":"x"})", "\"expire_unix_ms\" is not a whole number"},
      {R"({"key":"k","expire_unix_ms":18446744073709551615})", "\"expire_unix_ms\" is too large"},
      {"{\"key\":\"\xff\"}", "not JSON"},
      {R"({"key":"k","expire_unix_ms":1e999})", "a number is too large"},
  };
  for (const auto& [line, error] : cases) {
    EXPECT_THAT(ErrorOfParse(line, RecordFormat::kJsonLines), HasSubstr(error)) << line;
  }
}

TEST(FormatOfFileTest, GoesByTheEnding) {
  EXPECT_EQ(FormatOfFile("a.tsv"), RecordFormat::kTsv);
  EXPECT_EQ(FormatOfFile("-"), RecordFormat::kTsv);
  EXPECT_EQ(FormatOfFile("a.jsonl"), RecordFormat::kJsonLines);
  EXPECT_EQ(FormatOfFile("dir.tsv/a.JSON"), RecordFormat::kJsonLines);
}

}  // namespace
}  // namespace lodgekv::lodgectl
