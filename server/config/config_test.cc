#include "server/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "server/config/config_values.h"
#include "server/testing/temp_folder.h"

namespace lodgekv::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ConfigTest : public TempFolderTest {
 protected:
  std::string WriteYaml(std::string_view text) {
    std::string path = directory_ / "lodgekv.yaml";
    std::ofstream(path) << text;
    return path;
  }

  absl::StatusOr<LoadedConfig> LoadYaml(std::string_view text) {
    return LoadConfig(
        {.yaml_path = WriteYaml(text), .environment = {}, .flags = {}, .engine_options = {}});
  }

  std::string YamlError(std::string_view text) {
    const auto loaded = LoadYaml(text);
    return loaded.ok() ? "loaded" : std::string(loaded.status().message());
  }
};

// A configuration that is valid in this build, for a test to change.
Config Valid() {
  Config config = DefaultConfig();
  config.engine = "dram";
  return config;
}

std::string Complaint(const Config& config) {
  return std::string(ValidateConfig(config).message());
}

TEST(ConfigValuesTest, SizesTakeUnits) {
  EXPECT_EQ(ParseSize("0"), 0);
  EXPECT_EQ(ParseSize("4096"), 4096);
  EXPECT_EQ(ParseSize("4 KiB"), 4096);
  EXPECT_EQ(ParseSize(" 2MiB "), 2 * kMiB);
  EXPECT_EQ(ParseSize("3GiB"), 3 * kGiB);
  EXPECT_EQ(ParseSize("16777215TiB"), 16777215 * kTiB);
  for (const char* wrong :
       {"", "KiB", "4KB", "4k", "-1", "4 KiB x", "16777216TiB", "18446744073709551616"}) {
    EXPECT_EQ(ParseSize(wrong), std::nullopt) << wrong;
  }
}

TEST(ConfigValuesTest, DurationsNeedUnits) {
  EXPECT_EQ(ParseDuration("0"), 0);
  EXPECT_EQ(ParseDuration("250ms"), 250);
  EXPECT_EQ(ParseDuration("10 s"), 10'000);
  EXPECT_EQ(ParseDuration("2min"), 120'000);
  EXPECT_EQ(ParseDuration("1h"), 3'600'000);
  for (const char* wrong : {"", "10", "s", "-1s", "1d"}) {
    EXPECT_EQ(ParseDuration(wrong), std::nullopt) << wrong;
  }
}

TEST(ConfigValuesTest, FormattingReadsBack) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, uint64_t{65'535}, 4 * kKiB,
                               kMiB + 1, 3 * kGiB, 16 * kTiB}) {
    EXPECT_EQ(ParseSize(FormatSize(value)), value) << FormatSize(value);
    EXPECT_EQ(ParseDuration(FormatDuration(value)), value) << FormatDuration(value);
  }
  EXPECT_EQ(FormatSize(4 * kMiB), "4MiB");
  EXPECT_EQ(FormatDuration(90'000), "90s");
}

TEST(ConfigTableTest, EveryDefaultIsWithinItsBoundsAndNamesAreDistinct) {
  const Config defaults = DefaultConfig();
  std::set<std::string_view> names;
  for (const ConfigSection& section : ConfigSections()) {
    for (const ConfigField& field : section.fields) {
      EXPECT_TRUE(names.insert(field.name).second) << field.name;
      EXPECT_FALSE(field.doc.empty()) << field.name;
      if (field.kind == FieldKind::kOptions || field.kind == FieldKind::kText) continue;
      Config copy = defaults;
      EXPECT_TRUE(SetConfigField(copy, field, FormatConfigField(defaults, field), "default").ok())
          << field.name;
    }
  }
}

TEST(ConfigTableTest, ShippedFileIsTheTable) {
  std::ifstream file(LODGEKV_SOURCE_DIR "/config/lodgekv.yaml");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), RenderConfig(DefaultConfig()))
      << "regenerate it: lodgekvd --print-config > config/lodgekv.yaml";
}

TEST(ConfigTableTest, ShippedVariantsLoad) {
  for (const char* name : {"lodgekv.yaml", "dev.yaml", "fsdax.yaml", "devdax.yaml"}) {
    const std::string path = std::string(LODGEKV_SOURCE_DIR "/config/") + name;
    const auto loaded =
        LoadConfig({.yaml_path = path, .environment = {}, .flags = {}, .engine_options = {}});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
  }
}

TEST_F(ConfigTest, RenderedConfigReadsBack) {
  Config config = DefaultConfig();
  config.pool = "/mnt/pmem0/a \"b\": c";
  config.pool_size = 3 * kGiB;
  config.engine_options = {{"t_node", "4"}, {"pvl_entries", "128"}};
  config.inline_pairs = true;
  config.drain_grace_ms = 1'500;
  const auto loaded = LoadYaml(RenderConfig(config));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(RenderConfig(loaded->config), RenderConfig(config));
  EXPECT_EQ(loaded->config.pool, config.pool);
  EXPECT_EQ(loaded->config.engine_options, config.engine_options);
}

TEST_F(ConfigTest, LaterSourcesWin) {
  ConfigSources sources;
  sources.yaml_path =
      WriteYaml("pool: /a\npool_size: 64MiB\nlog_level: debug\nengine_options: {x: 1, y: 2}\n");
  sources.environment = {"LODGEKV_POOL=/b", "LODGEKV_POOL_SIZE=128MiB", "HOME=/root",
                         "LODGEKV_ENGINE_OPTIONS=y=3,z=4"};
  sources.flags = {{FindConfigField("pool"), "/c"}};
  sources.engine_options = {"z=5"};
  const auto loaded = LoadConfig(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.pool, "/c");
  EXPECT_EQ(loaded->config.pool_size, 128 * kMiB);
  EXPECT_EQ(loaded->config.log_level, "debug");
  EXPECT_EQ(loaded->config.listen, "127.0.0.1:7411");
  EXPECT_EQ(loaded->config.engine_options, (OptionMap{{"x", "1"}, {"y", "3"}, {"z", "5"}}));
  EXPECT_THAT(loaded->warnings, IsEmpty());
}

TEST_F(ConfigTest, UnknownFieldIsNamedWithTheNearest) {
  EXPECT_THAT(YamlError("pool: /a\npool_sise: 1GiB\n"),
              AllOf(HasSubstr("lodgekv.yaml:2"), HasSubstr("unknown field 'pool_sise'"),
                    HasSubstr("did you mean 'pool_size'?")));
  EXPECT_THAT(YamlError("completely_else: 1\n"),
              AllOf(HasSubstr("'completely_else'"), ::testing::Not(HasSubstr("did you mean"))));
}

TEST_F(ConfigTest, BadValuesAreNamedWithWhatIsRight) {
  EXPECT_THAT(YamlError("pool_size: 1GB\n"),
              AllOf(HasSubstr("pool_size is '1GB'"), HasSubstr("a size such as 64MiB")));
  EXPECT_THAT(YamlError("max_key_size: 70000\n"),
              AllOf(HasSubstr("max_key_size is '70000'"), HasSubstr("from 8B to 65535B")));
  EXPECT_THAT(YamlError("max_batch_operations: 1025\n"),
              AllOf(HasSubstr("max_batch_operations is '1025'"), HasSubstr("from 1 to 1024")));
  EXPECT_THAT(YamlError("key_format: utf8\n"),
              AllOf(HasSubstr("key_format is 'utf8'"), HasSubstr("one of bytes, fixed64")));
  EXPECT_THAT(YamlError("inline_pairs: maybe\n"), HasSubstr("true or false"));
  EXPECT_THAT(YamlError("drain_grace: 10\n"), HasSubstr("a duration such as 500ms"));
  EXPECT_THAT(YamlError("journal_size: 65GiB\n"),
              AllOf(HasSubstr("journal_size is '65GiB'"), HasSubstr("from 0 to 64GiB")));
  EXPECT_THAT(YamlError("checkpoint_rate: 0\n"),
              AllOf(HasSubstr("checkpoint_rate is '0'"), HasSubstr("from 1MiB to 16GiB")));
  EXPECT_THAT(YamlError("threads: 1.5\n"), HasSubstr("a whole number from 0 to 256"));
  EXPECT_THAT(YamlError("threads: [1]\n"), HasSubstr("threads takes a single value"));
  EXPECT_THAT(YamlError("threads:\n"), HasSubstr("threads is ''"));
  EXPECT_THAT(YamlError("engine_options: 5\n"), HasSubstr("map of option names"));
  EXPECT_THAT(YamlError("pool: /a\npool: /b\n"), HasSubstr("pool is given twice"));
  EXPECT_THAT(YamlError("engine_options: {a: 1, a: 2}\n"),
              HasSubstr("lodgekv.yaml:1: engine_options gives 'a' twice"));
  EXPECT_THAT(YamlError("pool: /a\n---\nlisten: x\n"),
              HasSubstr("lodgekv.yaml:2: a second document begins"));
  EXPECT_THAT(YamlError("{pool: /a} trailing\n"), HasSubstr("a second document begins"));
  EXPECT_THAT(YamlError("- pool\n"), HasSubstr("not a map of fields"));
  EXPECT_THAT(YamlError("pool: [\n"), HasSubstr("lodgekv.yaml', line"));
}

TEST_F(ConfigTest, MissingFileIsNamed) {
  const auto loaded = LoadConfig({.yaml_path = directory_ / "none.yaml",
                                  .environment = {},
                                  .flags = {},
                                  .engine_options = {}});
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("none.yaml"));
}

TEST_F(ConfigTest, EmptyFileIsTheDefaults) {
  const auto loaded = LoadYaml("# nothing\n");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(RenderConfig(loaded->config), RenderConfig(DefaultConfig()));
}

TEST(ConfigEnvironmentTest, ErrorsNameTheVariable) {
  const auto loaded = LoadConfig({.yaml_path = "",
                                  .environment = {"LODGEKV_THREADS=many"},
                                  .flags = {},
                                  .engine_options = {}});
  EXPECT_THAT(std::string(loaded.status().message()),
              AllOf(HasSubstr("LODGEKV_THREADS"), HasSubstr("'many'")));
}

TEST(ConfigEnvironmentTest, AMisspeltVariableIsAWarningOthersAreLeftAlone) {
  const auto loaded =
      LoadConfig({.yaml_path = "",
                  .environment = {"LODGEKV_POOLSIZE=1GiB", "LODGEKV_SERVICE_PORT_DATA=7411"},
                  .flags = {},
                  .engine_options = {}});
  ASSERT_TRUE(loaded.ok());
  EXPECT_THAT(loaded->warnings,
              ElementsAre(AllOf(HasSubstr("LODGEKV_POOLSIZE"), HasSubstr("'pool_size'"))));
}

TEST(ConfigFlagsTest, ErrorsNameTheFlag) {
  ConfigSources sources;
  sources.flags = {{FindConfigField("log_format"), "xml"}};
  EXPECT_THAT(std::string(LoadConfig(sources).status().message()), HasSubstr("--log-format"));
  sources.flags.clear();
  sources.engine_options = {"t_node"};
  EXPECT_THAT(std::string(LoadConfig(sources).status().message()), HasSubstr("name=value"));
}

TEST(ConfigValidateTest, AcceptsAValidOne) { EXPECT_EQ(Complaint(Valid()), ""); }

TEST(ConfigValidateTest, UnknownEngineListsTheKnownOnes) {
  Config config = Valid();
  config.engine = "btree";
  EXPECT_THAT(Complaint(config), AllOf(HasSubstr("'btree'"), HasSubstr("dram"), HasSubstr("null")));
}

TEST(ConfigValidateTest, UnknownEngineOptionIsNamed) {
  Config config = Valid();
  config.engine_options = {{"no_such_option", "1"}};
  EXPECT_THAT(Complaint(config), HasSubstr("no_such_option"));
}

TEST(ConfigValidateTest, APersistentEngineNeedsAPool) {
  Config config = Valid();
  config.engine = "lodgetree";
  EXPECT_THAT(Complaint(config), AllOf(HasSubstr("lodgetree"), HasSubstr("--pool")));
}

TEST(ConfigValidateTest, AddressesMustBeWellFormedAndDistinct) {
  Config config = Valid();
  for (const char* address :
       {"7411", "localhost", "127.0.0.1:65536", "127.0.0.1:x", "::1:7411", ":7411", "unix:"}) {
    config.listen = address;
    EXPECT_THAT(Complaint(config), AllOf(HasSubstr("listen is"), HasSubstr(address)));
  }
  config.listen = "127.0.0.1:7412";
  EXPECT_THAT(Complaint(config), HasSubstr("must differ"));
  config.listen = "127.0.0.1:0";
  config.admin_listen = "127.0.0.1:0";
  EXPECT_EQ(Complaint(config), "");
  config.listen = "unix:/run/lodgekv.sock";
  EXPECT_EQ(Complaint(config), "");
}

TEST(ConfigValidateTest, PlaintextIsForLoopbackUnlessAllowedElsewhere) {
  for (const char* address : {"127.0.0.1:1", "127.1.2.3:1", "localhost:1", "[::1]:1", "unix:/x"}) {
    EXPECT_TRUE(IsLoopbackAddress(address)) << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.example.com:1", "db:1"}) {
    EXPECT_FALSE(IsLoopbackAddress(address)) << address;
  }
  Config config = Valid();
  config.listen = "0.0.0.0:7411";
  EXPECT_THAT(Complaint(config), AllOf(HasSubstr("0.0.0.0:7411"), HasSubstr("allow_plaintext"),
                                       HasSubstr("tls_cert_file and tls_key_file")));
  config.allow_plaintext = true;
  EXPECT_EQ(Complaint(config), "");
  config.allow_plaintext = false;
  config.listen = "127.0.0.1:7411";
  config.admin_listen = "[::]:7412";
  EXPECT_THAT(Complaint(config), HasSubstr("admin_listen"));
}

TEST(ConfigValidateTest, LimitsMustFitIntoEachOther) {
  Config config = Valid();
  config.max_value_size = 16 * kMiB;
  EXPECT_THAT(Complaint(config), HasSubstr("max_batch_size is 4MiB"));
  config.max_batch_size = 32 * kMiB;
  config.max_inflight_size = 8 * kMiB;
  EXPECT_THAT(Complaint(config), HasSubstr("max_inflight_size is 8MiB"));
}

TEST(ConfigValidateTest, AJournalNeedsSpaceAndItsOwnPath) {
  Config config = Valid();
  config.journal_size = 64 * kKiB;
  EXPECT_THAT(Complaint(config),
              AllOf(HasSubstr("journal_size is 64KiB"), HasSubstr("1MiB to 64GiB, or 0")));
  config.journal_size = kMiB;
  EXPECT_EQ(Complaint(config), "");
  config.pool = "/data/pool";
  config.journal_path = "/data/pool";
  EXPECT_THAT(Complaint(config), HasSubstr("journal_path is '/data/pool', the pool itself"));
  config.journal_path = "/data/pool.journal";
  EXPECT_EQ(Complaint(config), "");
}

TEST(ConfigValidateTest, InlinePairsGoWithBytesOnly) {
  Config config = Valid();
  config.inline_pairs = true;
  config.key_format = "fixed64";
  EXPECT_THAT(Complaint(config), HasSubstr("inline_pairs"));
}

}  // namespace
}  // namespace lodgekv::server
