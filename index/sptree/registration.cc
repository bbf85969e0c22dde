// The engine's entry in the registry.
#include "index/engine_info.h"
#include "index/node/by_key_format.h"
#include "index/sptree/sptree.h"

namespace lodgekv::sptree {

namespace {

constexpr EngineOption kOptions[] = {
    {"leaf_slots", kBnodeSlots, 4, kBnodeSlots, "slots of a leaf that are used"},
    {"filter", 1, 0, 1, "switch: a Bloom filter in DRAM for each leaf's keys"},
    {"tags", 1, 0, 1, "switch: look only at the slots with the key's tag"},
    {"home_lines", 1, 0, 1,
     "switch: a pair goes to the line of its leaf that its key's hash names, if that has room; "
     "off: "
     "to the first free slot"},
    {"seqs", 1, 0, 1, "switch: scans keep the order of a leaf's slots in DRAM"},
    {"write_buffer_pairs", 0, 0, WriteBuffer::kMostPairs,
     "pairs of a leaf's write buffer (the paper: 14); 0: writes go to the leaves directly"},
    {"write_buffer_share", 15, 1, 100,
     "DRAM of all write buffers, at most, in percent of the leaves; at least 64 KiB"},
    {"two_phase", 1, 0, 1,
     "switch: the pairs of a write buffer are merged into the leaf together, in two phases; off: "
     "one after the other, with fences for each"},
    {"backup", 1, 0, 1, "switch: a backup of the top layer, by which a start touches no leaf"},
    {"lazy_replay", 1, 0, 1,
     "switch: leaves take what the log has of them when they are touched first; off: all of it is "
     "replayed before the first answer"},
    {"merge", 1, 0, 1, "switch: sparse neighbours are merged; off: leaves stay"},
};

}  // namespace

const EngineInfo& GetEngineInfo() {
  static constexpr EngineInfo kInfo = {
      .name = "sptree",
      .summary = "B+-tree of leaves with nodes in DRAM beside them: filters, two-phase insertion",
      .paper =
          "Developing Index Structures in Persistent Memory Using Spot-on Optimizations with DRAM "
          "(SPTree), ICPE 2024",
      .media_version = kMediaVersion,
      .persistent = true,
      .discards = false,
      .verifies_at_use = true,
      .options = kOptions,
      .create = CreateByKeyFormat<SpTree>,
      .recover = RecoverByKeyFormat<SpTree>,
      .bulk_load = BulkLoadByKeyFormat<SpTree>,
  };
  return kInfo;
}

}  // namespace lodgekv::sptree
