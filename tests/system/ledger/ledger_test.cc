// The checker of the kill tests must find each kind of loss.
#include "tests/system/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kOwn = KeyNumber(3, 7);
constexpr uint64_t kOther = KeyNumber(3, 8);
constexpr uint64_t kShared = KeyNumber(kSharedRange, 5);

LedgerEntry Acknowledged(uint64_t key, const RegisterOp& op, int64_t call, int64_t end,
                         uint64_t batch = 0) {
  return {key, op.At(call, end), batch};
}
LedgerEntry Unknown(uint64_t key, const RegisterOp& op, int64_t call, uint64_t batch = 0) {
  return {key, op.At(call, kNeverReturned), batch};
}

size_t Problems(const State& before, const Ledger& ledger, const State& now) {
  return Check(before, ledger, {.values = now}).problems.size();
}

TEST(LedgerTest, KeysHaveNumbers) {
  for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed64}) {
    std::string last;
    for (const uint64_t number : {KeyNumber(0, 0), KeyNumber(0, 4095), KeyNumber(9, 1),
                                  KeyNumber(9, 2), KeyNumber(1 << 24, 3)}) {
      const std::string key = LedgerKey(format, number);
      EXPECT_EQ(LedgerNumber(format, key), number);
      EXPECT_LT(last, key);
      last = key;
    }
  }
  EXPECT_EQ(LedgerNumber(KeyFormat::kBytes, "00000001--0001"), std::nullopt);
  EXPECT_EQ(LedgerNumber(KeyFormat::kBytes, "somebody"), std::nullopt);
}

TEST(LedgerCheckerTest, AcceptsWhatWasAcknowledged) {
  const Ledger ledger{.entries = {Acknowledged(kOwn, RegisterOp::Write(1), 0, 1),
                                  Acknowledged(kOwn, RegisterOp::Write(2), 2, 3)}};
  const Findings findings = Check({}, ledger, {.values = {{kOwn, 2}}});
  EXPECT_THAT(findings.problems, IsEmpty());
  EXPECT_EQ(findings.Line(), "acknowledged=2 unknown=0 reads=0 keys=1 problems=0");
}

TEST(LedgerCheckerTest, FindsALostWrite) {
  const Ledger ledger{.entries = {Acknowledged(kOwn, RegisterOp::Write(1), 0, 1),
                                  Acknowledged(kOwn, RegisterOp::Write(2), 2, 3)}};
  EXPECT_EQ(Problems({}, ledger, {{kOwn, 1}}), 1U);
  EXPECT_EQ(Problems({}, ledger, {}), 1U);
}

TEST(LedgerCheckerTest, FindsADeletedKeyThatIsBack) {
  const Ledger ledger{.entries = {Acknowledged(kOwn, RegisterOp::Delete(true), 0, 1)}};
  EXPECT_EQ(Problems({{kOwn, 1}}, ledger, {}), 0U);
  EXPECT_EQ(Problems({{kOwn, 1}}, ledger, {{kOwn, 1}}), 1U);
}

TEST(LedgerCheckerTest, FindsAChangeOfWhatNobodyWrote) {
  EXPECT_EQ(Problems({{kOwn, 1}}, {}, {{kOwn, 1}}), 0U);
  EXPECT_EQ(Problems({{kOwn, 1}}, {}, {}), 1U);
  EXPECT_EQ(Problems({}, {}, {{kOwn, 1}}), 1U);
  EXPECT_EQ(Problems({{kOwn, 1}}, {}, {{kOwn, 2}}), 1U);
}

TEST(LedgerCheckerTest, TakesAnUnansweredWriteEitherWay) {
  const Ledger ledger{.entries = {Acknowledged(kOwn, RegisterOp::Write(1), 0, 1),
                                  Unknown(kOwn, RegisterOp::Write(2), 2)}};
  EXPECT_EQ(Problems({}, ledger, {{kOwn, 1}}), 0U);
  EXPECT_EQ(Problems({}, ledger, {{kOwn, 2}}), 0U);
  EXPECT_EQ(Problems({}, ledger, {{kOwn, 3}}), 1U);
  EXPECT_EQ(Problems({}, ledger, {}), 1U);
}

TEST(LedgerCheckerTest, FindsAValueThatWasReadAndIsLost) {
  const Ledger ledger{.entries = {Unknown(kShared, RegisterOp::Write(2), 0),
                                  Acknowledged(kShared, RegisterOp::Read(2), 4, 5)}};
  EXPECT_EQ(Problems({{kShared, 1}}, ledger, {{kShared, 2}}), 0U);
  EXPECT_EQ(Problems({{kShared, 1}}, ledger, {{kShared, 1}}), 1U);
}

TEST(LedgerCheckerTest, TakesAnyOrderOfWritesThatOverlap) {
  const Ledger ledger{
      .entries = {Acknowledged(kShared, RegisterOp::Write(1), 0, 5),
                  Acknowledged(kShared, RegisterOp::Write(2), 1, 6),
                  Acknowledged(kShared, RegisterOp::WriteIfPresent(3, true), 7, 9)}};
  EXPECT_EQ(Problems({}, ledger, {{kShared, 3}}), 0U);
  EXPECT_EQ(Problems({}, ledger, {{kShared, 1}}), 1U);
}

TEST(LedgerCheckerTest, FindsABatchInPart) {
  const Ledger ledger{.entries = {Unknown(kOwn, RegisterOp::Write(5), 2, 77),
                                  Unknown(kOther, RegisterOp::Delete(true), 2, 77)}};
  const State before = {{kOwn, 1}, {kOther, 2}};
  EXPECT_EQ(Problems(before, ledger, before), 0U);
  EXPECT_EQ(Problems(before, ledger, {{kOwn, 5}}), 0U);
  EXPECT_EQ(Problems(before, ledger, {{kOwn, 5}, {kOther, 2}}), 1U);
  EXPECT_EQ(Problems(before, ledger, {{kOwn, 1}}), 1U);
}

TEST(LedgerCheckerTest, KnowsWhenAShortLifeEnds) {
  const ShortLived put{
      .key = kOwn, .id = 1, .acknowledged = true, .first_end_ms = 100, .last_end_ms = 110};
  const auto problems = [&](const ShortLived& of, const State& now, int64_t ms) {
    const Ledger ledger{.short_lived = {of}};
    return Check({}, ledger, {.values = now, .begin_ms = ms, .end_ms = ms + 2}).problems.size();
  };
  EXPECT_EQ(problems(put, {{kOwn, 1}}, 50), 0U);
  EXPECT_EQ(problems(put, {}, 50), 1U) << "gone too early";
  EXPECT_EQ(problems(put, {{kOwn, 2}}, 50), 1U) << "another value";
  EXPECT_EQ(problems(put, {}, 105), 0U);
  EXPECT_EQ(problems(put, {{kOwn, 1}}, 105), 0U);
  EXPECT_EQ(problems(put, {}, 120), 0U);
  EXPECT_EQ(problems(put, {{kOwn, 1}}, 120), 1U) << "there too long";
  ShortLived unknown = put;
  unknown.acknowledged = false;
  EXPECT_EQ(problems(unknown, {}, 50), 0U);
}

TEST(LedgerCheckerTest, PassesOnWhatClientsSaw) {
  const Ledger ledger{.mistakes = {"seen twice"}};
  EXPECT_EQ(Problems({}, ledger, {}), 1U);
  const Findings findings = Check({}, {}, {.strangers = {"who is it"}});
  EXPECT_THAT(findings.problems, SizeIs(1));
}

TEST(LedgerTest, IsReadAsItWasWritten) {
  const pmem::TempDir folder;
  const Ledger ledger{
      .entries = {Acknowledged(kOwn, RegisterOp::CompareAndSet(1, 2, true), 3, 4, 5),
                  Unknown(kShared, RegisterOp::Delete(true), 6)},
      .short_lived =
          {{.key = 1, .id = 2, .acknowledged = true, .first_end_ms = 3, .last_end_ms = 4}},
      .mistakes = {"two\nlines"}};
  ledger.Write(folder / "ledger");
  const auto read = ReadLedger(folder / "ledger");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_THAT(read->entries, SizeIs(2));
  EXPECT_EQ(read->entries[0].op.operand, 1U);
  EXPECT_EQ(read->entries[0].op.value, 2U);
  EXPECT_EQ(read->entries[0].batch, 5U);
  EXPECT_EQ(read->entries[1].op.return_ns, kNeverReturned);
  EXPECT_EQ(read->short_lived.at(0).last_end_ms, 4);
  EXPECT_THAT(read->mistakes, SizeIs(1));
}

TEST(LedgerTest, WithoutAnEndIsNone) {
  const pmem::TempDir folder;
  EXPECT_THAT(std::string(ReadLedger(folder / "none").status().message()), HasSubstr("no end"));
}

}  // namespace
}  // namespace lodgekv::test
