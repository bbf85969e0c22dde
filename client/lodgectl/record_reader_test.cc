#include "client/lodgectl/record_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lodgekv::lodgectl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  std::vector<std::string> records;  // "key=value"
  std::string error;                 // "line: what"
};

struct Given {
  RecordFormat format = RecordFormat::kTsv;
  Encoding encoding = Encoding::kText;
  bool keys_only = false;
};

Outcome Read(const std::string& text, const Given& given = {}) {
  std::FILE* file = std::tmpfile();
  std::fwrite(text.data(), 1, text.size(), file);
  std::rewind(file);
  LineReader lines(fileno(file), nullptr, 1'000'000);
  RecordReader records(lines, given.format, given.encoding, given.keys_only);
  Outcome outcome;
  for (;;) {
    const auto record = records.Next();
    if (!record.ok()) {
      outcome.error = absl::StrCat(records.line_number(), ": ", record.status().message());
      break;
    }
    if (!*record) break;
    outcome.records.push_back(absl::StrCat((*record)->key, "=", (*record)->value));
  }
  std::fclose(file);
  return outcome;
}

std::string MakeDump(RecordFormat format, Encoding encoding, int count) {
  DumpSum sum;
  std::string text = DumpHead(format, encoding) + "\n";
  for (int i = 0; i < count; ++i) {
    const Record record{absl::StrCat("key", i), absl::StrCat("a value\t", i), std::nullopt};
    const std::string line = FormatRecord(record, format, encoding);
    sum.Add(line);
    absl::StrAppend(&text, line, "\n");
  }
  return absl::StrCat(text, DumpEnd(format, sum), "\n");
}

TEST(DumpMarksTest, StandAsTheyAreDocumented) {
  DumpSum sum;
  sum.Add("a\tb");
  EXPECT_EQ(DumpHead(RecordFormat::kTsv, Encoding::kText), "#lodgekv-dump version=1 encoding=text");
  EXPECT_EQ(DumpEnd(RecordFormat::kTsv, DumpSum()),
            "#lodgekv-dump-end records=0 xxh3=2d06800538d394c2");
  EXPECT_THAT(
      DumpEnd(RecordFormat::kJsonLines, sum),
      ::testing::MatchesRegex(R"(\{"lodgekv_dump_end":\{"records":1,"xxh3":"[0-9a-f]{16}"\}\})"));
}

TEST(RecordReaderTest, ReadsAWholeDumpInEveryFormat) {
  for (const RecordFormat format : {RecordFormat::kTsv, RecordFormat::kJsonLines}) {
    for (const Encoding encoding : {Encoding::kText, Encoding::kHex}) {
      const Given given{.format = format, .encoding = encoding};
      const std::string dump = MakeDump(format, encoding, 3);
      for (const std::string& text : {dump, dump + "\n\n", dump + MakeDump(format, encoding, 0)}) {
        const Outcome outcome = Read(text, given);
        EXPECT_EQ(outcome.error, "");
        EXPECT_THAT(outcome.records, ::testing::ElementsAre("key0=a value\t0", "key1=a value\t1",
                                                            "key2=a value\t2"));
      }
    }
  }
}

// Wherever it was truncated: an error that says so, and only records that were written.
TEST(RecordReaderTest, ADumpThatWasCutIsAnError) {
  for (const RecordFormat format : {RecordFormat::kTsv, RecordFormat::kJsonLines}) {
    const std::string dump = MakeDump(format, Encoding::kText, 12);
    const Outcome whole = Read(dump, {.format = format});
    ASSERT_EQ(whole.records.size(), 12U);
    // A shorter beginning does not show that it is one of a dump.
    const size_t least = dump.find("dump") + 5;
    for (size_t length = least; length < dump.size() - 1; ++length) {
      const Outcome cut = Read(dump.substr(0, length), {.format = format});
      EXPECT_THAT(cut.error, HasSubstr("the dump was cut off")) << length;
      ASSERT_LE(cut.records.size(), whole.records.size());
      for (size_t i = 0; i < cut.records.size(); ++i) EXPECT_EQ(cut.records[i], whole.records[i]);
    }
    EXPECT_EQ(Read(dump.substr(0, dump.size() - 1), {.format = format}).error, "");
  }
}

// What was changed is not said to be cut, though its end mark has no line end.
TEST(RecordReaderTest, AChangedDumpWithoutItsLastLineEndWasChanged) {
  for (const RecordFormat format : {RecordFormat::kTsv, RecordFormat::kJsonLines}) {
    std::string dump = MakeDump(format, Encoding::kText, 12);
    dump.pop_back();
    dump.replace(dump.find("a value"), 1, "b");
    EXPECT_THAT(Read(dump, {.format = format}).error, HasSubstr("14: the dump was changed"));
    dump.erase(dump.find("key9") - 1, dump.find("key10") - dump.find("key9"));
    EXPECT_THAT(Read(dump, {.format = format}).error, HasSubstr("counts 12 records, and 11 were"));
  }
}

TEST(RecordReaderTest, ADumpThatWasChangedIsAnError) {
  const std::string dump = MakeDump(RecordFormat::kTsv, Encoding::kText, 3);
  std::string other_value = dump;
  other_value.replace(dump.find("a value"), 1, "b");
  EXPECT_THAT(Read(other_value).error, HasSubstr("5: the dump was changed"));
  std::string line_gone = dump;
  line_gone.erase(dump.find("key1"), dump.find("key2") - dump.find("key1"));
  EXPECT_THAT(Read(line_gone).error, HasSubstr("counts 3 records, and 2 were read"));
  EXPECT_THAT(Read(dump.substr(dump.find("key0"))).error, HasSubstr("whose header is missing"));
  EXPECT_THAT(Read(dump + "k\tv\n").error, HasSubstr("6: a line after the end mark"));
  EXPECT_THAT(Read("#lodgekv-dump version=2 encoding=text\n").error, HasSubstr("does not know"));
  EXPECT_THAT(Read(dump, {.encoding = Encoding::kHex}).error, HasSubstr("leave out --hex"));
  EXPECT_THAT(Read(MakeDump(RecordFormat::kTsv, Encoding::kHex, 1)).error, HasSubstr("give --hex"));
}

TEST(RecordReaderTest, TakesBlankLinesAtTheEndAlone) {
  EXPECT_EQ(Read("a\t1\nb\t2\n\n\n").error, "");
  EXPECT_EQ(Read("a\t1\n\r\n").error, "");
  EXPECT_EQ(Read("").error, "");
  EXPECT_EQ(Read("\n").error, "");
  EXPECT_THAT(Read("a\t1\n\n\nb\t2\n").error, HasSubstr("2: a blank line"));
}

// Also the first of a file, whose line could seem to begin with a byte order mark.
TEST(RecordReaderTest, EveryKeyCanBeTheFirst) {
  for (const std::string key : {"\xef\xbb\xbfk", "\xff\xfe", "\xfe\xff", "#", "{\"", "\r", "a,b"}) {
    for (const RecordFormat format : {RecordFormat::kTsv, RecordFormat::kJsonLines}) {
      const std::string line = FormatRecord({key, "v", std::nullopt}, format, Encoding::kText);
      const Outcome outcome = Read(line + "\n", {.format = format});
      EXPECT_THAT(outcome.records, ::testing::ElementsAre(key + "=v")) << outcome.error;
    }
  }
}

TEST(RecordReaderTest, TheLastLineOfAFileMayHaveNoEnd) {
  EXPECT_THAT(Read("a\t1\nb\t2").records, ::testing::ElementsAre("a=1", "b=2"));
}

TEST(RecordReaderTest, WhatIsNoRecordIsNoKey) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"id,name\n1,Ada\n", "1: no tab, but a separator of CSV"},
      {"id;name\n", "only TSV can be read"},
      {"# a comment\nk\tv\n", "1: a line that begins with # is not a record"},
      {"k\tv\n#k\tv\n", "2: a line that begins with #"},
      {"\xef\xbb\xbfk\tv\n", "byte order mark"},
      {std::string("\xff\xfek\0", 4), "UTF-16"},
      {"{\"key\":\"k\"}\n", "--format json"},
      {"k\tv\r\n", "ends in a carriage return"},
  };
  for (const auto& [text, error] : cases) EXPECT_THAT(Read(text).error, HasSubstr(error)) << text;
  EXPECT_THAT(Read("\xef\xbb\xbfk\tv\n").error, HasSubstr(R"(is written \xef\xbb\xbf)"));
  EXPECT_THAT(Read("\xef\xbb\xbf{}\n", {.format = RecordFormat::kJsonLines}).error,
              AllOf(HasSubstr("byte order mark"), Not(HasSubstr("is written"))));
  EXPECT_THAT(Read("# a comment\n", {.format = RecordFormat::kJsonLines}).error,
              HasSubstr("--format tsv"));
  EXPECT_THAT(Read("a,b\t\n{x\n\\x23k\n").records, ::testing::ElementsAre("a,b=", "{x=", "#k="));
  EXPECT_THAT(Read("a,b\n", {.keys_only = true}).records, ::testing::ElementsAre("a,b="));
}

TEST(LineReaderTest, ALineHasABound) {
  EXPECT_THAT(Read(std::string(1'000'001, 'x')).error, HasSubstr("longer than 1000000 bytes"));
  EXPECT_EQ(Read(std::string(1'000'000, 'x') + "\n").records.size(), 1U);
}

}  // namespace
}  // namespace lodgekv::lodgectl
