// The model test: random operations against the oracle, for every persistent engine, key format,
// size of nodes, shape of keys and character of load; and the proof that it catches mistakes.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "index/registry.h"
#include "tests/conformance/faulty_engine.h"
#include "tests/conformance/model_runner.h"
#include "tests/support/engine_harness.h"

namespace lodgekv::test {
namespace {

// In total well over a million for one engine and key format.
constexpr uint64_t kOperations = 40'000;

// With long keys an engine may reserve room for the longest one with each operation of a group, and
// groups have up to 1,024.
HarnessOptions ModelOptions(const KeyFamily& family) {
  const uint64_t memory_mib = family.name == "long_ones" ? 192 : 48;
  return {.memory_bytes = memory_mib << 20, .chunk_bytes = uint64_t{64} << 10};
}

// Half of the options at their minimum, others at their maximum if that is near.
std::map<std::string, std::string> DrawOptions(const EngineInfo& engine, Random& random) {
  std::map<std::string, std::string> options;
  for (const EngineOption& option : engine.options) {
    const bool is_switch = option.min_value == 0 && option.max_value == 1;
    uint64_t value = option.default_value;
    if (random.OneIn(2)) value = option.min_value;
    if (is_switch) value = random.Below(2);
    if (random.OneIn(4) && option.max_value <= 64) value = option.max_value;
    options[std::string(option.name)] = std::to_string(value);
  }
  return options;
}

std::string Show(const std::map<std::string, std::string>& options) {
  std::string shown;
  for (const auto& [name, value] : options)
    shown.append(name).append("=").append(value).append(" ");
  return shown;
}

class ModelTest : public ::testing::TestWithParam<EngineCase> {
 protected:
  void RunModel(const KeyFamily& family, const Mix& mix, const ModelPlan& plan, uint64_t stream,
                const HarnessOptions& options) {
    auto harness = EngineHarness::Create(GetParam(), options);
    if (GetParam().inline_pairs && absl::IsUnimplemented(harness.status())) {
      GTEST_SKIP() << harness.status();
    }
    ASSERT_TRUE(harness.ok()) << harness.status();
    EngineHarness& subject = **harness;
    const auto reopen = [&subject](bool clean) {
      return clean ? subject.CloseAndReopen() : subject.KillAndReopen();
    };
    ModelRunner runner({GetParam(), [&]() -> Engine& { return subject.engine(); }, reopen}, family,
                       mix, plan, stream);
    const auto difference = runner.Run();
    EXPECT_FALSE(difference.has_value()) << *difference << "\n" << SeedNote();
  }

  static ModelPlan Plan(uint64_t operations) {
    const uint64_t scaled = Scaled(operations);
    return {.operations = scaled, .compare_every = scaled / 8 + 1, .reopen_every = scaled / 4 + 1};
  }
};

TEST_P(ModelTest, EveryMixOnEveryKeyFamily) {
  uint64_t stream = 0;
  for (const KeyFamily& family : KeyFamilies(GetParam().key_format)) {
    for (const Mix& mix : Mixes()) {
      RunModel(family, mix, Plan(kOperations), ++stream, ModelOptions(family));
      if (HasFailure() || IsSkipped()) return;
    }
  }
}

TEST_P(ModelTest, RestartsEveryFewOperations) {
  uint64_t stream = 1'000;
  for (const KeyFamily& family : KeyFamilies(GetParam().key_format)) {
    const uint64_t operations = Scaled(2'000);
    const ModelPlan plan{.operations = operations, .compare_every = operations, .reopen_every = 50};
    HarnessOptions options = ModelOptions(family);
    options.memory_bytes /= 3;
    RunModel(family, Mixes().back(), plan, ++stream, options);
    if (HasFailure() || IsSkipped()) return;
  }
}

TEST_P(ModelTest, OptionsDrawnAtRandom) {
  Random random("options");
  const auto families = KeyFamilies(GetParam().key_format);
  for (uint64_t run = 0; run < 12; ++run) {
    const KeyFamily& family = families[run % families.size()];
    HarnessOptions options = ModelOptions(family);
    options.strict_order = random.OneIn(2);
    options.recovery_threads = static_cast<unsigned>(random.Between(1, 3));
    options.engine_options = DrawOptions(*GetParam().engine, random);
    SCOPED_TRACE(Show(options.engine_options));
    RunModel(family, Mixes()[run % Mixes().size()], Plan(kOperations / 2), 2'000 + run, options);
    if (HasFailure() || IsSkipped()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, ModelTest, ::testing::ValuesIn(PersistentCases()),
                         EngineCaseName());
// A build may have volatile engines only.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ModelTest);

// --- tests of the model test itself ---

EngineCase OracleCase(KeyFormat key_format) {
  const auto dram = FindEngine("dram");
  return {dram.ok() ? *dram : nullptr, key_format, false, false};
}

std::optional<std::string> RunOn(Engine& engine, KeyFormat key_format, const Mix& mix) {
  ModelRunner runner({OracleCase(key_format), [&engine]() -> Engine& { return engine; }},
                     KeyFamilies(key_format)[0], mix,
                     {.operations = 60'000, .compare_every = 5'000}, 1);
  return runner.Run();
}

TEST(ModelSelfTest, OracleEqualsItself) {
  for (const KeyFormat key_format : {KeyFormat::kBytes, KeyFormat::kFixed64}) {
    for (const Mix& mix : Mixes()) {
      EngineContext context;
      context.key_format = key_format;
      auto engine = OracleCase(key_format).engine->create(context);
      ASSERT_TRUE(engine.ok()) << engine.status();
      const auto difference = RunOn(**engine, key_format, mix);
      EXPECT_FALSE(difference.has_value()) << *difference << "\n" << SeedNote();
    }
  }
}

class FaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultTest, IsCaught) {
  bool caught = false;
  for (const Mix& mix : Mixes()) {
    const auto engine = MakeFaultyEngine(KeyFormat::kBytes, GetParam());
    caught = caught || RunOn(*engine, KeyFormat::kBytes, mix).has_value();
  }
  EXPECT_TRUE(caught) << "the model test does not see the mistake " << GetParam();
}

std::vector<Fault> AllFaults() {
  std::vector<Fault> faults;
  for (int fault = 0; fault <= static_cast<int>(kLastFault); ++fault) {
    faults.push_back(static_cast<Fault>(fault));
  }
  return faults;
}

std::string NameOfFault(const ::testing::TestParamInfo<Fault>& param) {
  return std::string(FaultName(param.param));
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultTest, ::testing::ValuesIn(AllFaults()), NameOfFault);

}  // namespace
}  // namespace lodgekv::test
