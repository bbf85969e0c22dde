#include "tests/pibench/wrapper.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "index/registry.h"

namespace lodgekv::test {
namespace {

std::vector<const EngineInfo*> EnginesWhere(bool (*wanted)(const EngineInfo&)) {
  std::vector<const EngineInfo*> engines;
  for (const EngineInfo* engine : AllEngines()) {
    if (wanted(*engine)) engines.push_back(engine);
  }
  return engines;
}

}  // namespace

Tree CreateTree(const EngineInfo& engine, const tree_options_t& options) {
  const std::string path =
      std::string(LODGEKV_PIBENCH_FOLDER "/libpibench_").append(engine.name).append(".so");
  // As PiBench does; the second time it is the same library.
  void* library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  auto* create = reinterpret_cast<decltype(&create_tree)>(dlsym(library, "create_tree"));
  if (create == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  Tree tree(create(options));
  dlclose(library);
  return tree;
}

bool Insert(tree_api& tree, const std::string& key, const std::string& value) {
  return tree.insert(key.data(), key.size(), value.data(), value.size());
}

bool Update(tree_api& tree, const std::string& key, const std::string& value) {
  return tree.update(key.data(), key.size(), value.data(), value.size());
}

bool Remove(tree_api& tree, const std::string& key) { return tree.remove(key.data(), key.size()); }

std::optional<std::string> Find(tree_api& tree, const std::string& key, size_t value_size) {
  // One byte more than the value, to see that it is left alone.
  std::string value(value_size + 1, '#');
  const bool found = tree.find(key.data(), key.size(), value.data());
  EXPECT_EQ(value.back(), '#') << "find wrote behind the value";
  if (!found) return std::nullopt;
  value.pop_back();
  return value;
}

Pairs Scan(tree_api& tree, const std::string& key, int scan_size, size_t value_size) {
  char* out = nullptr;
  const int scanned = tree.scan(key.data(), key.size(), scan_size, out);
  EXPECT_LE(scanned, std::max(scan_size, 0));
  Pairs pairs;
  for (int i = 0; i < scanned; ++i, out += key.size() + value_size) {
    pairs.emplace_back(std::string(out, key.size()), std::string(out + key.size(), value_size));
  }
  return pairs;
}

std::string KeyOf(uint64_t number, size_t size) {
  std::string key(size, '\0');
  for (size_t i = size; i > 0 && number != 0; --i, number >>= 8) {
    key[i - 1] = static_cast<char>(number & 0xff);
  }
  return key;
}

Variable::Variable(const char* name, const char* value) : name_(name) {
  setenv(name, value, /*overwrite=*/1);
}

Variable::~Variable() { unsetenv(name_); }

tree_options_t WrapperTest::Options(size_t key_size, size_t value_size,
                                    const std::string& pool) const {
  tree_options_t options;
  options.key_size = key_size;
  options.value_size = value_size;
  options.pool_path = folder_ / pool;
  options.pool_size = size_t{64} << 20;
  options.num_threads = 1;
  return options;
}

std::vector<const EngineInfo*> StoringEngines() {
  return EnginesWhere([](const EngineInfo& engine) { return !engine.discards; });
}

std::vector<const EngineInfo*> DiscardingEngines() {
  return EnginesWhere([](const EngineInfo& engine) { return engine.discards; });
}

std::vector<const EngineInfo*> PersistentEngines() {
  return EnginesWhere([](const EngineInfo& engine) { return engine.persistent; });
}

std::string EngineName(const ::testing::TestParamInfo<const EngineInfo*>& info) {
  return std::string(info.param->name);
}

}  // namespace lodgekv::test
