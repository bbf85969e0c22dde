// For tests of bulk loads: pairs of `fixed64`, and what is written past the cache. What holds for
// every engine is tested by tests/conformance/bulk_load_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "index/node/engine_test_util.h"

namespace lodgekv {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

inline BulkSource SourceOf(const TextPairs& pairs) {
  return [&pairs, next = size_t{0}](BulkPair* pair) mutable -> absl::StatusOr<bool> {
    if (next == pairs.size()) return false;
    const auto& [key, value] = pairs[next++];
    *pair = {key, value};
    return true;
  };
}

// Distributed over the whole key range, in order.
inline TextPairs FixedPairs(uint64_t count) {
  TextPairs pairs;
  for (uint64_t i = 0; i < count; ++i) pairs.push_back({Scattered(i), Text(~i)});
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// Counts lines written by streaming stores.
class StreamCounter final : public pmem::Tracer {
 public:
  void OnStore(const void*, size_t, bool stream) override { lines += stream ? 1 : 0; }
  void OnFlush(const void*) override {}
  void OnFence() override {}
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view) override { return false; }

  uint64_t lines = 0;
};

// Lines that a load of these pairs, into full leaves, writes by streaming stores.
inline uint64_t LinesPastTheCache(const EngineInfo& info, const TextPairs& pairs) {
  StreamCounter tracer;
  pmem::TestArena arena(uint64_t{4} << 20);
  arena.options().tracer = &tracer;
  pmem::PoolIdentity identity = pmem::TestArena::Identity();
  identity.key_format = KeyFormat::kFixed64;
  const auto pool = arena.Create(identity);
  EngineContext context;
  context.pool = pool.get();
  context.key_format = KeyFormat::kFixed64;
  context.options = *OptionValues::Parse(info.options, {});
  const uint64_t before = tracer.lines;
  const auto engine = info.bulk_load(context, {SourceOf(pairs), 100});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return tracer.lines - before;
}

}  // namespace lodgekv
