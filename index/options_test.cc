#include "index/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace lodgekv {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::array<EngineOption, 3> kTable = {{
    {"leaf_slots", 27, 4, 27, "pairs in a leaf"},
    {"t_node", 2, 1, 8, "target leaves of one flush"},
    {"hotness_aware_split", 1, 0, 1, "choose the number of nodes by the rate of inserts"},
}};

std::string ErrorOf(const std::map<std::string, std::string>& given) {
  const auto values = OptionValues::Parse(kTable, given);
  EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(values.status().message());
}

uint64_t ValueOf(const std::string& name, const std::string& text) {
  const auto values = OptionValues::Parse(kTable, {{name, text}});
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? values->Get(name) : UINT64_MAX;
}

TEST(OptionValuesTest, DefaultsAreCompleteWithoutAnythingGiven) {
  const auto values = OptionValues::Parse(kTable, {});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->values().size(), kTable.size());
  EXPECT_EQ(values->Get("leaf_slots"), 27u);
  EXPECT_EQ(values->Get("t_node"), 2u);
  EXPECT_EQ(values->Get("hotness_aware_split"), 1u);
}

TEST(OptionValuesTest, GivenValueOverridesOnlyItsOwnDefault) {
  const auto values = OptionValues::Parse(kTable, {{"t_node", "8"}});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->Get("t_node"), 8u);
  EXPECT_EQ(values->Get("leaf_slots"), 27u);
}

TEST(OptionValuesTest, BothBoundsAreAllowed) {
  EXPECT_EQ(ValueOf("leaf_slots", "4"), 4u);
  EXPECT_EQ(ValueOf("leaf_slots", "27"), 27u);
}

TEST(OptionValuesTest, OutOfBoundsNamesOptionValueAndBounds) {
  for (const char* text : {"3", "28", "18446744073709551615", "18446744073709551616"}) {
    EXPECT_EQ(ErrorOf({{"leaf_slots", text}}), "engine option 'leaf_slots' is '" +
                                                   std::string(text) +
                                                   "'; it must be a decimal number from 4 to 27");
  }
}

TEST(OptionValuesTest, WhatIsNotADecimalNumberIsRefused) {
  for (const char* text : {"", " ", "5 ", " 5", "+5", "-5", "0x5", "5k", "five", "5.0"}) {
    EXPECT_THAT(ErrorOf({{"leaf_slots", text}}), HasSubstr("a decimal number from 4 to 27"))
        << "'" << text << "'";
  }
}

TEST(OptionValuesTest, SwitchTakesWords) {
  for (const char* text : {"1", "true", "on", "On", "TRUE"}) {
    EXPECT_EQ(ValueOf("hotness_aware_split", text), 1u) << text;
  }
  for (const char* text : {"0", "false", "off", "OFF", "False"}) {
    EXPECT_EQ(ValueOf("hotness_aware_split", text), 0u) << text;
  }
}

TEST(OptionValuesTest, SwitchRefusesTheRestAndSaysWhatItTakes) {
  for (const char* text : {"2", "yes", "", "onn"}) {
    EXPECT_THAT(ErrorOf({{"hotness_aware_split", text}}), HasSubstr("0 or 1 (also: off, on"));
  }
}

TEST(OptionValuesTest, WordsOfASwitchAreNoNumbers) {
  EXPECT_THAT(ErrorOf({{"t_node", "true"}}), HasSubstr("a decimal number from 1 to 8"));
}

TEST(OptionValuesTest, UnknownNameSuggestsTheNearest) {
  EXPECT_THAT(ErrorOf({{"leaf_slot", "4"}}),
              HasSubstr("unknown engine option 'leaf_slot'; did you mean 'leaf_slots'?"));
  EXPECT_THAT(ErrorOf({{"tnode", "4"}}), HasSubstr("did you mean 't_node'?"));
  EXPECT_THAT(ErrorOf({{"hotness_split", "1"}}), HasSubstr("did you mean 'hotness_aware_split'?"));
  EXPECT_THAT(ErrorOf({{"tnode", "4"}}),
              HasSubstr("Known options: leaf_slots, t_node, hotness_aware_split"));
}

TEST(OptionValuesTest, EngineWithoutOptionsSaysSo) {
  const auto values = OptionValues::Parse({}, {{"leaf_slots", "4"}});
  EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(values.status().message()), HasSubstr("this engine takes no options"));
  EXPECT_THAT(std::string(values.status().message()), Not(HasSubstr("did you mean")));
}

TEST(OptionValuesDeathTest, GetOfANameThatIsNotInTheTableDies) {
  const auto values = OptionValues::Parse(kTable, {});
  ASSERT_TRUE(values.ok());
  EXPECT_DEATH(static_cast<void>(values->Get("leaf_slot")), "'leaf_slot' is not in the engine");
}

}  // namespace
}  // namespace lodgekv
