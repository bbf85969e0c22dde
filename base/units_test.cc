#include "base/units.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lodgekv {
namespace {

TEST(UnitsTest, DurationsMayHaveParts) {
  const std::vector<std::pair<std::string, uint64_t>> cases{{"0", 0},
                                                            {"0s", 0},
                                                            {"1ms", 1},
                                                            {"250ms", 250},
                                                            {"10 s", 10'000},
                                                            {"5min", 300'000},
                                                            {"5 m", 300'000},
                                                            {"1h", 3'600'000},
                                                            {"1m30s", 90'000},
                                                            {"1.5s", 1'500},
                                                            {"1h 2m 3s 4ms", 3'723'004},
                                                            {" 2s ", 2'000},
                                                            {"0.001s", 1},
                                                            {"0.5min", 30'000}};
  for (const auto& [text, milliseconds] : cases)
    EXPECT_EQ(ParseDuration(text), milliseconds) << text;
  for (const std::string wrong :
       {"", " ", "5", "s", "-1s", "1d", "1s1s", "1s2m", "1m1min", "1.5", ".5s", "1.s", "1.5ms",
        "0.0001s", "1e3s", "1s,", "inf", "18446744073709551615s", "99999999999999999999s"}) {
    EXPECT_EQ(ParseDuration(wrong), std::nullopt) << wrong;
  }
}

TEST(UnitsTest, SizesHaveOnePart) {
  EXPECT_EQ(ParseSize("1.5KiB"), 1'536);
  EXPECT_EQ(ParseSize("0.5 GiB"), uint64_t{1} << 29);
  for (const std::string wrong : {"", "1GiB512MiB", "1.5", "0.1B", "1kB", "1 2", "KiB", "1K"}) {
    EXPECT_EQ(ParseSize(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace lodgekv
