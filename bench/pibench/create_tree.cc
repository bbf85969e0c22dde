// The one function that a wrapper library exports. LODGEKV_PIBENCH_ENGINE is the engine's name.

#include <cstdio>
#include <memory>
#include <tree_api.hpp>

#include "bench/pibench/pibench_tree.h"

// The name is PiBench's: it looks for it in the library.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" tree_api* create_tree(const tree_options_t& options) {
  constexpr char kEngine[] = LODGEKV_PIBENCH_ENGINE;
  auto tree = lodgekv::pibench::PibenchTree::Create(kEngine, options);
  if (!tree.ok()) {
    std::fprintf(stderr, "libpibench_%s: %s\n", kEngine, tree.status().ToString().c_str());
    return nullptr;
  }
  std::fprintf(stderr, "libpibench_%s: %s\n", kEngine, (*tree)->Description().c_str());
  return tree->release();
}
