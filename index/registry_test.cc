#include "index/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lodgekv {
namespace {

using ::testing::HasSubstr;

TEST(RegistryTest, EveryEngineIsFoundByItsName) {
  ASSERT_FALSE(AllEngines().empty());
  for (const EngineInfo* engine : AllEngines()) {
    const auto found = FindEngine(engine->name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, engine);
  }
}

TEST(RegistryTest, TheOracleAndTheFloorAreAlwaysThere) {
  const auto dram = FindEngine("dram");
  ASSERT_TRUE(dram.ok()) << dram.status();
  EXPECT_FALSE((*dram)->persistent);
  EXPECT_FALSE((*dram)->discards);
  const auto null = FindEngine("null");
  ASSERT_TRUE(null.ok()) << null.status();
  EXPECT_FALSE((*null)->persistent);
  EXPECT_TRUE((*null)->discards);
}

TEST(RegistryTest, UnknownEngineListsTheKnownOnes) {
  for (const char* name : {"", "Dram", "dram ", "rocksdb"}) {
    const auto found = FindEngine(name);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
    const std::string message(found.status().message());
    EXPECT_THAT(message, HasSubstr("unknown engine '" + std::string(name) + "'"));
    for (const EngineInfo* engine : AllEngines()) {
      EXPECT_THAT(message, HasSubstr(std::string(engine->name)));
    }
  }
}

TEST(RegistryTest, WhatCannotBeLoadedInBulkNamesWhatCan) {
  const absl::Status status = NoBulkLoad("dram");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("engine dram has no bulk load"));
  for (const EngineInfo* engine : AllEngines()) {
    if (engine->bulk_load == nullptr) continue;
    EXPECT_TRUE(engine->persistent) << engine->name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(engine->name)));
  }
}

TEST(RegistryTest, RowsAreComplete) {
  for (const EngineInfo* engine : AllEngines()) {
    SCOPED_TRACE(engine->name);
    EXPECT_FALSE(engine->name.empty());
    EXPECT_FALSE(engine->summary.empty());
    EXPECT_NE(engine->create, nullptr);
    if (!engine->persistent) continue;
    EXPECT_NE(engine->recover, nullptr);
    EXPECT_FALSE(engine->paper.empty());
    EXPECT_GT(engine->media_version, 0u);
  }
}

TEST(RegistryTest, OptionTablesHoldTheirOwnDefaultsAndNoNameTwice) {
  for (const EngineInfo* engine : AllEngines()) {
    std::set<std::string_view> names;
    for (const EngineOption& option : engine->options) {
      SCOPED_TRACE(std::string(engine->name) + " " + std::string(option.name));
      EXPECT_TRUE(names.insert(option.name).second);
      EXPECT_FALSE(option.doc.empty());
      EXPECT_LE(option.min_value, option.default_value);
      EXPECT_GE(option.max_value, option.default_value);
    }
  }
}

TEST(RegistryTest, PersistentEnginesComeFirst) {
  bool volatile_seen = false;
  for (const EngineInfo* engine : AllEngines()) {
    EXPECT_FALSE(volatile_seen && engine->persistent)
        << engine->name << " is persistent but stands after a volatile engine";
    volatile_seen = volatile_seen || !engine->persistent;
  }
}

}  // namespace
}  // namespace lodgekv
