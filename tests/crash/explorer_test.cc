// Every persistent engine, in each key format, under both crash models, with several workloads.
#include "tests/crash/explorer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

namespace lodgekv::test {
namespace {

TEST(Explorer, Puts) {
  for (const EngineCase& engine_case : PersistentCases()) {
    if (!engine_case.fixed64()) continue;
    for (const CrashModel model : {CrashModel::kLinePrefix, CrashModel::kTornWords}) {
      ExplorerOptions options;
      options.engine_case = engine_case;
      options.model = model;
      options.mixture = {.name = "puts",
                         .family = "dense",
                         .keys = 40,
                         .deletes = 0,
                         .conditions = 0,
                         .groups = 0,
                         .batches = 0};
      const auto start = std::chrono::steady_clock::now();
      const ExplorerResult result = Explorer(options).Run();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      EXPECT_FALSE(result.failure) << *result.failure;
      std::printf("%s %s: %lu images (%lu nested, %lu lives) at %lu positions, %.0f a second\n",
                  engine_case.Name().c_str(), ModelName(model).c_str(), result.images,
                  result.nested_images, result.lives, result.positions,
                  result.images / took.count());
    }
  }
}

}  // namespace
}  // namespace lodgekv::test
