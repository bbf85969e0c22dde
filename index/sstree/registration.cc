// The engine's entry in the registry.
#include "index/engine_info.h"
#include "index/node/by_key_format.h"
#include "index/sstree/sstree.h"

namespace lodgekv::sstree {

namespace {

constexpr EngineOption kOptions[] = {
    {"subnodes", 2, 2, kMaxSubnodes, "N: at most so many subnodes of 256 bytes in a leaf (IV-D)"},
    {"leaf_slots", kSubnodeSlots, 4, kSubnodeSlots, "slots of a subnode that are used"},
    {"head_replacement", 1, 0, 1, "switch: a full head gets a subnode before it; off: it splits"},
    {"head_fingerprints", 1, 0, 1, "switch: look only at the head's slots with the fingerprint"},
    {"delegated_fingerprints", 1, 0, 1, "switch: the same in overflow subnodes"},
    {"overflow_filter", 1, 0, 1, "switch: a filter in DRAM for keys of overflow subnodes"},
    {"item_movement", 1, 0, 1, "switch: an update moves its pair to a free slot of the head"},
    {"several_items", 1, 0, 1, "switch: and with it others of the same line"},
    {"reclamation", 1, 0, 1, "switch: an empty overflow subnode is freed at once"},
    {"entry_moving", 1, 0, 1, "switch: an insert moves pairs out of the head's first line"},
    {"fill_holes", 1, 0, 1, "switch: an insert uses free slots of overflow subnodes"},
    {"drop_leaves", 1, 0, 1, "switch: a leaf goes with its last pair; off: at the next opening"},
    {"head_hints", 1, 0, 1,
     "switch: addresses of heads, in DRAM, by which they are fetched with the leaves"},
};

}  // namespace

const EngineInfo& GetEngineInfo() {
  static constexpr EngineInfo kInfo = {
      .name = "sstree",
      .summary = "B+-tree whose leaves are lists of subnodes: head replacement, item movement",
      .paper =
          "Optimizing Structural Modification Operation for B+-Tree on Byte-Addressable Devices "
          "(SSTree)",
      .media_version = kMediaVersion,
      .persistent = true,
      .discards = false,
      .verifies_at_use = true,
      .options = kOptions,
      .create = CreateByKeyFormat<SsTree>,
      .recover = RecoverByKeyFormat<SsTree>,
      .bulk_load = BulkLoadByKeyFormat<SsTree>,
  };
  return kInfo;
}

}  // namespace lodgekv::sstree
