// Pools of released media versions, closed cleanly and killed, open in this build with every key,
// value, version and expiry, and stay usable.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/pmem/testing/temp_dir.h"
#include "tests/engines/engine_rows.h"
#include "tests/media/golden_set.h"
#include "tests/media/gzip_file.h"
#include "tests/support/engine_calls.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

class GoldenPoolsTest : public ::testing::TestWithParam<std::tuple<GoldenPool, bool>> {
 protected:
  const GoldenPool& golden() const { return std::get<0>(GetParam()); }
  bool closed() const { return std::get<1>(GetParam()); }
  std::string FilePath(const char* suffix) const {
    return absl::StrCat(LODGEKV_MEDIA_DIR "/pools/", golden().name, suffix);
  }

  void SetUp() override {
    auto pool = ReadGzip(FilePath(closed() ? ".closed.gz" : ".killed.gz"));
    ASSERT_TRUE(pool.ok()) << pool.status();
    std::ofstream(dir_ / "pool", std::ios::binary) << *pool;
    auto dump = ReadGzip(FilePath(".tsv.gz"));
    ASSERT_TRUE(dump.ok()) << dump.status();
    dump_ = *std::move(dump);
  }
  std::unique_ptr<Store> Open() {
    auto store = Store::Open(GoldenOptions(golden(), dir_ / "pool"));
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  static void ExpectSound(Engine& engine) {
    const CheckReport report = engine.Check();
    EXPECT_EQ(report.problem_count, 0u);
    for (const std::string& problem : report.problems) ADD_FAILURE() << problem;
  }

  pmem::TempDir dir_{pmem::TempDir::Disk()};
  std::string dump_;
};

std::string CaseName(const ::testing::TestParamInfo<std::tuple<GoldenPool, bool>>& info) {
  return absl::StrCat(std::get<0>(info.param).name,
                      std::get<1>(info.param) ? "_closed" : "_killed");
}

INSTANTIATE_TEST_SUITE_P(Released, GoldenPoolsTest,
                         ::testing::Combine(::testing::ValuesIn(GoldenPools()), ::testing::Bool()),
                         CaseName);

TEST_P(GoldenPoolsTest, HoldsWhatWasWritten) {
  auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_FALSE(store->info().created);
  EXPECT_EQ(store->info().recovery.clean, closed());
  const EngineRows* rows = RowsOf(golden().of.engine->name);
  const bool has_log = golden().of.buffered || (rows != nullptr && rows->has_log);
  if (!closed() && has_log) {
    EXPECT_GT(store->info().recovery.log_entries_replayed, 0u) << "the buffers are part of it";
  }
  Engine& engine = store->engine();
  ExpectSound(engine);
  const auto dump = DumpEngine(engine);
  ASSERT_TRUE(dump.ok()) << dump.status();
  EXPECT_EQ(*dump, dump_);
  const auto content = GoldenContent(golden());
  EXPECT_EQ(ParseDump(dump_), content);
  EXPECT_EQ(engine.CountKeys(), content.size());
  EXPECT_EQ(engine.AppliedIndex(), kGoldenAppliedIndex);
  for (const auto& [key, pair] : content) {
    if (pair.expiry_unix_ms == 0) continue;
    EXPECT_TRUE(Get(engine, key, pair.expiry_unix_ms - 1).found);
    EXPECT_FALSE(Get(engine, key, pair.expiry_unix_ms).found);
  }
}

TEST_P(GoldenPoolsTest, ServesOn) {
  const std::string key = OrderedKey(golden().of.key_format, 77);
  const std::string value = ValueOf(golden().of.key_format, 88);
  const auto content = GoldenContent(golden());
  const std::string victim = content.begin()->first;
  uint64_t version = 0;
  {
    auto store = Open();
    ASSERT_NE(store, nullptr);
    const WriteResult put = Put(store->engine(), key, value);
    EXPECT_EQ(put.outcome, Outcome::kOk);
    version = put.version;
    EXPECT_TRUE(Delete(store->engine(), victim).found);
    EXPECT_TRUE(store->Close().ok());
  }
  auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(store->info().recovery.clean);
  Engine& engine = store->engine();
  ExpectSound(engine);
  EXPECT_EQ(Get(engine, key).value, value);
  EXPECT_EQ(Get(engine, key).version, version);
  EXPECT_FALSE(Get(engine, victim).found);
  EXPECT_EQ(engine.CountKeys(), content.size());
  // No version is assigned twice.
  for (const Pair& pair : ScanAll(engine)) {
    EXPECT_TRUE(pair.key == key || pair.version < version || version == 0);
  }
}

}  // namespace
}  // namespace lodgekv::test
