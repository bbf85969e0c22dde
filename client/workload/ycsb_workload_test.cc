#include "client/workload/ycsb_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "client/workload/insert_sequence.h"
#include "client/workload/zipfian.h"

namespace lodgekv::workload {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kSeed = 7;
constexpr uint64_t kDraws = 1'000'000;
// Standard deviations that a share may be off by chance: fewer than one in a million are.
constexpr double kDeviations = 5;

void ExpectShare(uint64_t count, double share, double more = 0) {
  const double all = kDraws;
  const double deviation = std::sqrt(all * share * (1 - share));
  EXPECT_NEAR(static_cast<double>(count), all * share, kDeviations * deviation + all * more)
      << "share " << share;
}

// Of all ranks' k^-0.99: the first ones one by one, and the rest by the formula of Euler and
// Maclaurin, whose next term is below 1e-12.
double Zeta(uint64_t ranks) {
  constexpr uint64_t kOneByOne = 10'000;
  double sum = 0;
  for (uint64_t k = 1; k <= std::min(kOneByOne, ranks); ++k) {
    sum += std::pow(static_cast<double>(k), -kZipfianConstant);
  }
  if (ranks <= kOneByOne) return sum;
  const auto first = static_cast<double>(kOneByOne);
  const auto last = static_cast<double>(ranks);
  const auto density = [](double x) { return std::pow(x, -kZipfianConstant); };
  const double tail = 1 - kZipfianConstant;
  return sum + (std::pow(last, tail) - std::pow(first, tail)) / tail +
         (density(last) - density(first)) / 2;
}

TEST(ZipfianTest, RanksHaveTheirFrequencies) {
  for (const uint64_t ranks : {uint64_t{10}, uint64_t{1'000}, uint64_t{10'000'000'000}}) {
    Random random(kSeed);
    const Zipfian zipfian(ranks);
    const double zeta = Zeta(ranks);
    std::array<uint64_t, 11> counts{};
    for (uint64_t i = 0; i < kDraws; ++i) {
      const uint64_t rank = zipfian.Draw(random);
      ASSERT_LE(rank, ranks);
      if (rank < counts.size()) ++counts[rank];
    }
    EXPECT_EQ(counts[0], 0);
    for (uint64_t rank = 1; rank < counts.size(); ++rank) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << " of " << ranks);
      ExpectShare(counts[rank], std::pow(rank, -kZipfianConstant) / zeta);
    }
  }
}

TEST(ZipfianTest, TheFirstThousandRanksTogetherHaveTheirShare) {
  constexpr uint64_t kRanks = 1'000'000;
  Random random(kSeed);
  const Zipfian zipfian(kRanks);
  uint64_t first = 0;
  for (uint64_t i = 0; i < kDraws; ++i) first += zipfian.Draw(random) <= 1'000 ? 1 : 0;
  ExpectShare(first, Zeta(1'000) / Zeta(kRanks));
}

TEST(ZipfianTest, OneRankIsAlwaysDrawn) {
  Random random(kSeed);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Zipfian(1).Draw(random), 1);
}

// As YCSB has it in its source for so many ranks.
TEST(ZipfianTest, TheSumOfAllRanksIsThatOfYcsb) {
  EXPECT_NEAR(Zeta(10'000'000'000), 26.46902820178302, 1e-6);
}

std::vector<unsigned> Percent(char letter) {
  const auto& percent = WorkloadOf(letter).percent;
  return {percent.begin(), percent.end()};
}

// reads, updates, inserts, scans, read-modify-writes
TEST(YcsbWorkloadTest, WorkloadsAreThoseOfYcsb) {
  EXPECT_THAT(Percent('a'), ElementsAre(50, 50, 0, 0, 0));
  EXPECT_THAT(Percent('b'), ElementsAre(95, 5, 0, 0, 0));
  EXPECT_THAT(Percent('c'), ElementsAre(100, 0, 0, 0, 0));
  EXPECT_THAT(Percent('d'), ElementsAre(95, 0, 5, 0, 0));
  EXPECT_THAT(Percent('e'), ElementsAre(0, 0, 5, 95, 0));
  EXPECT_THAT(Percent('f'), ElementsAre(50, 0, 0, 0, 50));
  for (const char letter : {'a', 'b', 'c', 'e', 'f'}) {
    EXPECT_EQ(WorkloadOf(letter).distribution, YcsbDistribution::kZipfian) << letter;
  }
  EXPECT_EQ(WorkloadOf('d').distribution, YcsbDistribution::kLatest);
}

TEST(YcsbChooserTest, OperationsHaveTheirShares) {
  for (const char letter : {'a', 'b', 'c', 'd', 'e', 'f'}) {
    const YcsbWorkload& workload = WorkloadOf(letter);
    YcsbChooser chooser(workload, 1, kSeed);
    std::array<uint64_t, kYcsbOperations> counts{};
    for (uint64_t i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(chooser.NextOperation())];
    for (size_t i = 0; i < kYcsbOperations; ++i) {
      SCOPED_TRACE(testing::Message() << letter << " operation " << i);
      ExpectShare(counts[i], workload.percent[i] / 100.0);
    }
  }
}

// How often each record is chosen.
std::vector<uint64_t> Choices(YcsbDistribution distribution, uint64_t loaded, uint64_t known) {
  YcsbWorkload workload = WorkloadOf('c');
  workload.distribution = distribution;
  YcsbChooser chooser(workload, loaded, kSeed);
  std::vector<uint64_t> counts(known);
  for (uint64_t i = 0; i < kDraws; ++i) ++counts.at(chooser.NextRecord(known));
  return counts;
}

TEST(YcsbChooserTest, UniformChoosesAllAlike) {
  for (const uint64_t count : Choices(YcsbDistribution::kUniform, 100, 100)) {
    ExpectShare(count, 0.01);
  }
}

TEST(YcsbChooserTest, TheLatestArePopular) {
  constexpr uint64_t kRecords = 1'000;
  const auto counts = Choices(YcsbDistribution::kLatest, kRecords / 2, kRecords);
  for (uint64_t age = 1; age <= 20; ++age) {
    SCOPED_TRACE(testing::Message() << "age " << age);
    ExpectShare(counts[kRecords - age], std::pow(age, -kZipfianConstant) / Zeta(kRecords));
  }
}

TEST(YcsbChooserTest, PopularRecordsAreScattered) {
  constexpr uint64_t kRecords = 100'000;
  constexpr uint64_t kRanks = 10'000'000'000;
  const auto counts = Choices(YcsbDistribution::kZipfian, kRecords, kRecords);
  std::vector<uint64_t> popular(kRecords);
  for (uint64_t i = 0; i < kRecords; ++i) popular[i] = i;
  std::sort(popular.begin(), popular.end(),
            [&](uint64_t a, uint64_t b) { return counts[a] > counts[b]; });
  // Other ranks share a record now and then: each has less than a thousandth of the draws.
  for (uint64_t rank = 1; rank <= 5; ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    ExpectShare(counts[popular[rank - 1]], std::pow(rank, -kZipfianConstant) / Zeta(kRanks), 1e-3);
  }
  const auto [least, most] = std::minmax_element(popular.begin(), popular.begin() + 10);
  EXPECT_LT(*least, kRecords / 4);
  EXPECT_GT(*most, kRecords * 3 / 4);
}

TEST(YcsbChooserTest, ScansAreUniformlyLong) {
  YcsbChooser chooser(WorkloadOf('e'), 1, kSeed);
  std::array<uint64_t, kYcsbMostScanned + 1> counts{};
  for (uint64_t i = 0; i < kDraws; ++i) ++counts.at(chooser.NextScanLength());
  EXPECT_EQ(counts[0], 0);
  for (uint64_t length = 1; length <= kYcsbMostScanned; ++length) ExpectShare(counts[length], 0.01);
}

TEST(InsertSequenceTest, OnlyWhatWasAnsweredWithoutAGapIsKnown) {
  InsertSequence sequence(10);
  EXPECT_EQ(sequence.Take(), 10);
  EXPECT_EQ(sequence.Take(), 11);
  EXPECT_EQ(sequence.Take(), 12);
  sequence.Answered(11);
  EXPECT_EQ(sequence.known(), 10);
  sequence.Answered(10);
  EXPECT_EQ(sequence.known(), 12);
  sequence.Answered(12);
  EXPECT_EQ(sequence.known(), 13);
}

}  // namespace
}  // namespace lodgekv::workload
