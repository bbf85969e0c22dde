// Flips bits of pools in memory, region by region, and truncates pools: each must be refused,
// quarantined, or without effect.
#include <gtest/gtest.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/corruption/unseen.h"
#include "tests/corruption/victim.h"
#include "tests/engines/engine_rows.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kFlipsOfChunks = 2'000;
constexpr uint64_t kFlipsOfFreeSpace = 100;
constexpr uint64_t kPageBytes = 4096;
constexpr unsigned kFailuresShown = 5;

struct Damage {
  uint64_t offset;
  unsigned bit;
};

struct Row {
  std::array<uint64_t, kEffects> effects{};
  std::array<uint64_t, 2> unseen{};  // by their standing
};

using Parameter = std::tuple<EngineCase, bool>;

// Rows of the table that some damage needed. When every test ran, with the default seed, a row that
// none needed is obsolete.
class SeenRows : public ::testing::Environment {
 public:
  // `example`: what the row allows, and how to reproduce it.
  static void Add(const Unseen* row, std::string example) {
    Rows().emplace(row, std::move(example));
  }
  void TearDown() override {
    for (const auto& [row, example] : Rows()) {
      if (row->standing != Standing::kOpen) continue;
      std::cout << "known defect: " << EngineOf(row) << ", " << row->region << ": " << row->what
                << "; for instance\n  " << example << "\n";
    }
    const auto& tests = *::testing::UnitTest::GetInstance();
    if (tests.test_to_run_count() != tests.total_test_count() || Scaled(10) < 10 ||
        std::getenv("LODGEKV_TEST_SEED") != nullptr)
      return;
    for (const EngineRows* engine : AllEngineRows()) {
      for (const Unseen& row : engine->unseen) {
        EXPECT_TRUE(Rows().contains(&row))
            << engine->engine << ", " << row.region << " (" << row.what
            << "): no damage needs this row of tests/engines any more; take it out";
      }
    }
  }

 private:
  static std::string_view EngineOf(const Unseen* row) {
    for (const EngineRows* engine : AllEngineRows()) {
      if (row >= engine->unseen.data() && row < engine->unseen.data() + engine->unseen.size()) {
        return engine->engine;
      }
    }
    return "";
  }
  static std::map<const Unseen*, std::string>& Rows() {
    static std::map<const Unseen*, std::string> rows;
    return rows;
  }
};
const auto* const kSeenRows = ::testing::AddGlobalTestEnvironment(new SeenRows);

struct ParameterName {
  std::string operator()(const ::testing::TestParamInfo<Parameter>& info) const {
    return std::get<0>(info.param).Name() + (std::get<1>(info.param) ? "_closed" : "_killed");
  }
};

class CorruptionTest : public ::testing::TestWithParam<Parameter> {
 protected:
  void TryFlips(const std::vector<Damage>& damages) {
    const auto verdicts = TryAll(
        damages.size(), [&](size_t i) { return victim_.Flip(damages[i].offset, damages[i].bit); });
    for (size_t i = 0; i < damages.size(); ++i) Count(damages[i], verdicts[i]);
  }

  void Count(const Damage& damage, const Verdict& verdict) {
    const Region& region = victim_.RegionOf(damage.offset);
    Row& row = rows_[region.name];
    if (!MetBySeal(region, verdict)) {
      ADD_FAILURE() << "believed before its checksum: " << Describe(damage, region, verdict);
    }
    if (verdict.effect > Effect::kNamed) {
      const Unseen* unseen =
          FindUnseen(victim_.engine_case(), closed_, region, damage.offset, verdict.effect);
      if (unseen != nullptr) {
        ++row.unseen[static_cast<size_t>(unseen->standing)];
        return SeenRows::Add(unseen, Describe(damage, region, verdict));
      }
    }
    ++row.effects[static_cast<size_t>(verdict.effect)];
    if (verdict.effect <= Effect::kNamed) return;
    ++failures_;
    if (++shown_[{region.name, verdict.effect}] > kFailuresShown) return;
    ADD_FAILURE() << Describe(damage, region, verdict);
  }

  // In a pool that was closed cleanly nothing in nodes and logs is believed before its checksum.
  bool MetBySeal(const Region& region, const Verdict& verdict) const {
    const bool sealed = region.use == pmem::ChunkUse::kNodes || region.use == pmem::ChunkUse::kLogs;
    if (!closed_ || !sealed) return true;
    return verdict.message.find("the pool was closed cleanly with checksum") != std::string::npos;
  }

  std::string Describe(const Damage& damage, const Region& region, const Verdict& verdict) const {
    uint64_t at = damage.offset - region.begin;
    if (region.unit_bytes != 0) at %= region.unit_bytes;
    return absl::StrFormat(
        "%s: bit %d of byte %d (%s, byte %d of %s): %s\n  alone: LODGEKV_FLIP=%d.%d "
        "LODGEKV_TEST_SEED=%d corruption_test --gtest_filter='*FlippedBits/%s'",
        std::string(EffectName(verdict.effect)), damage.bit, damage.offset, region.name, at,
        region.unit_bytes == 0 ? "the region" : absl::StrCat(region.unit_bytes), verdict.message,
        damage.offset, damage.bit, TestSeed(), ParameterName()({GetParam(), 0}));
  }

  void PrintTable() const {
    std::cout << victim_.engine_case().Name() << ", "
              << (closed_ ? "closed cleanly" : "as a killed process leaves it") << "\n";
    for (const auto& [name, row] : rows_) {
      std::cout << absl::StreamFormat("  %-24s", name);
      for (size_t i = 0; i < kEffects; ++i) {
        if (row.effects[i] == 0) continue;
        std::cout << absl::StreamFormat("  %d %s", row.effects[i],
                                        std::string(EffectName(static_cast<Effect>(i))));
      }
      const auto& [named, open] = row.unseen;
      if (named > 0) std::cout << absl::StreamFormat("  %d unseen, as named", named);
      if (open > 0) std::cout << absl::StreamFormat("  %d unseen, a known defect", open);
      std::cout << "\n";
    }
  }

  const bool closed_ = std::get<1>(GetParam());
  const Victim victim_{std::get<0>(GetParam()), closed_};
  std::map<std::string, Row> rows_;
  uint64_t failures_ = 0;
  std::map<std::pair<std::string, Effect>, unsigned> shown_;  // failures, by what they are
};

TEST_P(CorruptionTest, AnUndamagedPoolIsWhole) {
  const auto verdicts = TryAll(1, [&](size_t) { return victim_.Truncate(victim_.bytes()); });
  EXPECT_EQ(EffectName(verdicts[0].effect), EffectName(Effect::kNone)) << verdicts[0].message;
}

// LODGEKV_FLIP=BYTE.BIT, as a failure prints it, flips that one bit, in this process.
std::optional<Damage> WantedFlip() {
  const char* wanted = std::getenv("LODGEKV_FLIP");
  Damage damage{};
  if (wanted == nullptr) return std::nullopt;
  if (std::sscanf(wanted, "%" SCNu64 ".%u", &damage.offset, &damage.bit) != 2) {
    throw std::invalid_argument(
        absl::StrCat("LODGEKV_FLIP is '", wanted, "', it must be BYTE.BIT, such as 6139.0"));
  }
  return damage;
}

TEST_P(CorruptionTest, FlippedBits) {
  if (const auto flip = WantedFlip()) {
    const Verdict verdict = victim_.Flip(flip->offset, flip->bit);
    return Count(*flip, verdict);
  }
  Random random("flips");
  std::vector<Damage> damages;
  uint64_t in_chunks = 0;
  for (const Region& region : victim_.regions()) {
    if (region.use != pmem::ChunkUse::kFree) ++in_chunks;
  }
  for (const Region& region : victim_.regions()) {
    if (region.use == pmem::ChunkUse::kFree && region.name != "large records") {
      for (uint64_t at = region.begin; at < region.end; ++at) {
        damages.push_back({at, static_cast<unsigned>(random.Below(8))});
      }
      continue;
    }
    for (uint64_t n = Scaled(kFlipsOfChunks) / in_chunks; n > 0; --n) {
      damages.push_back({region.begin + random.Below(region.end - region.begin),
                         static_cast<unsigned>(random.Below(8))});
    }
  }
  for (uint64_t n = 0; n < kFlipsOfFreeSpace;) {
    const uint64_t offset = random.Below(victim_.bytes());
    if (victim_.RegionOf(offset).name != "free space") continue;
    damages.push_back({offset, static_cast<unsigned>(random.Below(8))});
    ++n;
  }
  TryFlips(damages);
  PrintTable();
  EXPECT_EQ(failures_, 0U) << "of " << damages.size() << " damages";
}

TEST_P(CorruptionTest, CutShortAtEveryPage) {
  const uint64_t pages = victim_.bytes() / kPageBytes;
  const auto verdicts =
      TryAll(pages, [&](size_t page) { return victim_.Truncate(page * kPageBytes); });
  for (size_t page = 0; page < pages; ++page) {
    EXPECT_EQ(EffectName(verdicts[page].effect), EffectName(Effect::kRefused))
        << page << " pages of " << pages << ": " << verdicts[page].message;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, CorruptionTest,
                         ::testing::Combine(::testing::ValuesIn(PersistentCases()),
                                            ::testing::Bool()),
                         ParameterName());

}  // namespace
}  // namespace lodgekv::test
