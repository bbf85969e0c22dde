// The engine's entry in the registry.
#include "index/engine_info.h"
#include "index/lbtree/lbtree.h"
#include "index/node/by_key_format.h"

namespace lodgekv::lbtree {

namespace {

constexpr EngineOption kOptions[] = {
    {"leaf_blocks", 1, 1, kMaxBlocks,
     "m: a leaf has m x 256 bytes; taken when the pool is created (LB+-Tree 3.4)"},
    {"leaf_slots", kBlockSlots, 4, kBlockSlots, "slots of a block of 256 bytes that are used"},
    {"entry_moving", 1, 0, 1, "switch: an insert moves entries out of the header's line"},
    {"fingerprints", 1, 0, 1, "switch: look only at slots with the key's fingerprint"},
    {"logless_split", 1, 0, 1, "switch: split without a log; off: the leaf is written aside first"},
    {"unlink_leaves", 1, 0, 1, "switch: a leaf goes with its last pair; off: at the next opening"},
};

}  // namespace

const EngineInfo& GetEngineInfo() {
  static constexpr EngineInfo kInfo = {
      .name = "lbtree",
      .summary = "B+-tree that writes few lines: entry moving, logless splits, distributed headers",
      .paper =
          "LB+-Trees: Optimizing Persistent Index Performance on 3DXPoint Memory, "
          "PVLDB 13(7), 2020",
      .media_version = kMediaVersion,
      .persistent = true,
      .discards = false,
      .verifies_at_use = true,
      .options = kOptions,
      .create = CreateByKeyFormat<LbTree>,
      .recover = RecoverByKeyFormat<LbTree>,
      .bulk_load = BulkLoadByKeyFormat<LbTree>,
  };
  return kInfo;
}

}  // namespace lodgekv::lbtree
