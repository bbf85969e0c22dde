// The engine's entry in the registry.
#include "index/engine_info.h"
#include "index/node/by_key_format.h"
#include "index/tlbtree/tlbtree.h"

namespace lodgekv::tlbtree {

namespace {

constexpr unsigned kMostSlots = media::Node<Fixed64Codec>::kSlots;

constexpr EngineOption kOptions[] = {
    {"height", kMaxHeight, 1, kMaxHeight, "of a sub-index, at most (TLBtree IV-A)"},
    {"gaps", 4, 0, kTopLeafSlots - 1,
     "empty slots, of 16, in each leaf node of a new top layer; 0: no gaps"},
    {"rebuild_steps", 1, 0, 1000,
     "steps sideways, for each entry of the top layer, until it is built anew; 0: never"},
    {"leaf_slots", kMostSlots, 4, kMostSlots, "slots of a leaf that are used; `bytes` has 12"},
    {"node_slots", kMostSlots, 2, kMostSlots,
     "entries of a sub-index, besides the leftmost leaf; `bytes` has 8"},
    {"entry_moving", 1, 0, 1,
     "switch: an insert elsewhere moves the pairs beside the state word to other free slots"},
    {"split_entries", 1, 0, 1,
     "switch: a split makes the entry above its new leaf under its own fences, not after them"},
    {"merges", 1, 0, 1, "switch: sparse leaves and sub-indices are joined"},
    {"root_hints", 1, 0, 1,
     "switch: addresses of roots, in DRAM, by which a descent fetches them with the anchors"},
    {"top_shortcuts", 1, 0, 1,
     "switch: an array in DRAM, by which a search of the top layer begins at a leaf node"},
};

}  // namespace

const EngineInfo& GetEngineInfo() {
  static constexpr EngineInfo kInfo = {
      .name = "tlbtree",
      .summary = "two layers, all on the medium: at work the instant it is opened",
      .paper = "TLBtree: A Read/Write-Optimized Tree Index for Non-Volatile Memory, ICDE 2021",
      .media_version = kMediaVersion,
      .persistent = true,
      .discards = false,
      .verifies_at_use = true,
      .options = kOptions,
      .create = CreateByKeyFormat<TlbTree>,
      .recover = RecoverByKeyFormat<TlbTree>,
      .bulk_load = BulkLoadByKeyFormat<TlbTree>,
  };
  return kInfo;
}

}  // namespace lodgekv::tlbtree
