// A wrapper library of bench/pibench, loaded as PiBench loads it, and what the tests of it share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tree_api.hpp>
#include <utility>
#include <vector>

#include "index/engine_info.h"
#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::test {

using Tree = std::unique_ptr<tree_api>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// The library's create_tree; fails the test where there is no such library or function.
Tree CreateTree(const EngineInfo& engine, const tree_options_t& options);

// The calls of tree_api on strings.
bool Insert(tree_api& tree, const std::string& key, const std::string& value);
bool Update(tree_api& tree, const std::string& key, const std::string& value);
bool Remove(tree_api& tree, const std::string& key);
std::optional<std::string> Find(tree_api& tree, const std::string& key, size_t value_size);
Pairs Scan(tree_api& tree, const std::string& key, int scan_size, size_t value_size);

// `number` big-endian in `size` bytes, as PiBench makes its keys.
std::string KeyOf(uint64_t number, size_t size = 8);

// A variable of the environment for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const char* value);
  ~Variable();
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

// A test of one engine, with a folder for its pools.
class WrapperTest : public ::testing::TestWithParam<const EngineInfo*> {
 protected:
  tree_options_t Options(size_t key_size = 8, size_t value_size = 8,
                         const std::string& pool = "pool") const;
  Tree Create(const tree_options_t& options) const { return CreateTree(*GetParam(), options); }
  bool persistent() const { return GetParam()->persistent; }

  const pmem::TempDir folder_;

 private:
  const Variable volatile_medium_{"LODGEKV_ALLOW_VOLATILE_MEDIUM", "true"};
};

// Engines of the registry, by what they do.
std::vector<const EngineInfo*> StoringEngines();
std::vector<const EngineInfo*> DiscardingEngines();
std::vector<const EngineInfo*> PersistentEngines();
std::string EngineName(const ::testing::TestParamInfo<const EngineInfo*>& info);

}  // namespace lodgekv::test
