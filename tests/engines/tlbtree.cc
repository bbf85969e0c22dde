// TLBtree: what its tests need to know.
#include "index/pmem/internal/pool_header.h"
#include "index/tlbtree/layout.h"
#include "index/tlbtree/top_view.h"
#include "tests/engines/batch_intent_canaries.h"
#include "tests/engines/engine_rows.h"
#include "tests/engines/faults.h"
#include "tests/engines/layout_writer.h"

namespace lodgekv::test::tlbtree_rows {
namespace {

constexpr Canary kCanaries[] = {
    {"first leaf not flushed", "creation", Bc(1, 7), Ask("tlbtree.create.leaf_not_flushed")},
    {.name = "leaves not flushed",
     .group = "bulk load",
     .bugs = Bc(1),
     .fault = Forget("tlbtree.bulk_load.1"),
     .by = By::kBulkLoad},
    {.name = "first anchor not flushed",
     .group = "bulk load",
     .bugs = Bc(1),
     .fault = DropFlushes("tlbtree.bulk_load.1"),
     .by = By::kBulkLoad},
    {.name = "not fenced before the pool has an engine",
     .group = "bulk load",
     .bugs = Bc(2, 3),
     .fault = DropFence("tlbtree.bulk_load.2"),
     .by = By::kBulkLoad},
    {"pair not flushed", "insert", Bc(1), Forget("tlbtree.insert.1")},
    {"pair not fenced before the commit", "insert", Bc(3), DropFence("tlbtree.insert.1")},
    {"commit not flushed", "insert", Bc(1), Forget("tlbtree.insert.3")},
    {"the line behind the commit's is flushed", "insert", Bc(20), Misdirect("tlbtree.insert.2")},
    {"commit not fenced", "insert", Bc(2), DropFence("tlbtree.insert.3")},
    {"state before the pair", "insert", Bc(3), Ask("tlbtree.insert.state_first")},
    {"order and count in two stores", "insert", Bc(4, 10), Ask("tlbtree.insert.two_stores")},
    {"lines of moved pairs not flushed", "insert", Bc(1), Ask("tlbtree.insert.moved_not_flushed")},
    {"record not flushed", "record", Bc(1), Forget("tlbtree.record.1"), Under::kBoth, In::kBytes},
    {"record not fenced before it is linked", "record", Bc(3), DropFence("tlbtree.record.1"),
     Under::kBoth, In::kBytes},
    {"value not flushed", "update", Bc(1), Forget("tlbtree.update.1")},
    {"value not fenced", "update", Bc(2), DropFence("tlbtree.update.1")},
    {"records of replaced values stay", "update", Bc(11), Ask("tlbtree.update.record_stays"),
     Under::kBoth, In::kBytes},
    {"state not flushed", "delete", Bc(1), Forget("tlbtree.delete.1")},
    {"state not fenced", "delete", Bc(2), DropFence("tlbtree.delete.1")},
    {"right leaf not flushed", "leaf split", Bc(1), Ask("tlbtree.split.leaf_not_flushed")},
    {"not fenced before the commit", "leaf split", Bc(3), DropFence("tlbtree.split.1")},
    {"commit not flushed", "leaf split", Bc(1), Forget("tlbtree.split.2")},
    {"sibling after the commit", "leaf split", Bc(3), Ask("tlbtree.split.sibling_after_commit")},
    {"sibling not flushed", "leaf split", Bc(1), Ask("tlbtree.split.sibling_not_flushed")},
    {"pairs go before the sibling is there", "leaf split", Bc(4, 6),
     Ask("tlbtree.split.two_stores")},
    {"the entry before the leaf is linked", "leaf split", Bc(3, 21),
     Ask("tlbtree.split.entry_first")},
    {"pairs not flushed", "group", Bc(1), Forget("tlbtree.group.1")},
    {"pairs not fenced before the commits", "group", Bc(3), DropFence("tlbtree.group.1")},
    {"commits not flushed", "group", Bc(1), Forget("tlbtree.group.3")},
    {"commits not fenced", "group", Bc(2), DropFence("tlbtree.group.3")},
    {"records of replaced values stay", "group", Bc(11), Ask("tlbtree.group.records_stay"),
     Under::kBoth, In::kBytes},
    {"record not fenced before its value", "group", Bc(3), Ask("tlbtree.group.value_not_fenced"),
     Under::kBoth, In::kBytes},
    {"an operation overtakes one of its key", "group", Bc(16), Ask("node.group_writes.overtakes")},
    {"new leaves not flushed", "group split", Bc(1), Ask("tlbtree.group.leaf_not_flushed")},
    {"a new leaf that splits keeps its sibling", "group split", Bc(4),
     Ask("tlbtree.group.new_sibling_stays")},
    // With words that may tear there is a fence anyway.
    {.name = "not fenced before the commits",
     .group = "group split",
     .bugs = Bc(3),
     .fault = Ask("tlbtree.group.split_not_fenced"),
     .under = Under::kLinePrefix},
    {"pair in the slot of a moved one", "group split", Bc(5), Ask("tlbtree.group.reuse_at_once")},
    {"entries of a group not flushed", "entry", Bc(1), Forget("tlbtree.entry.1")},
    {"entries of a group not fenced before the commit", "entry", Bc(3),
     DropFence("tlbtree.entry.1")},
    {"entry not flushed", "entry", Bc(1), Ask("tlbtree.entry.link_not_flushed")},
    {"state before the entry", "entry", Bc(3), Ask("tlbtree.entry.state_first")},
    {"root not flushed", "sub-index", Bc(1), Ask("tlbtree.sub_index.root_not_flushed")},
    {"anchor not flushed", "sub-index", Bc(1), Ask("tlbtree.sub_index.anchor_not_flushed")},
    {"new root not fenced before its anchor leads to it", "sub-index", Bc(3),
     DropFence("tlbtree.grow.1")},
    {"new anchor not fenced before it is linked", "sub-index", Bc(3),
     DropFence("tlbtree.sub_index_split.1")},
    {"neighbour not flushed", "sub-index", Bc(1), Forget("tlbtree.sub_index_split.1")},
    {"root word not flushed", "sub-index", Bc(1), Forget("tlbtree.sub_index_split.2")},
    {.name = "root word of a first root not flushed",
     .group = "sub-index",
     .bugs = Bc(1),
     .fault = Forget("tlbtree.grow.2"),
     .workload = "crowds"},
    {"neighbour after the root word", "sub-index", Bc(3, 7), Ask("tlbtree.anchor.next_after_root")},
    {"anchor's commit not fenced before the old root is free", "sub-index", Bc(2, 21),
     DropFence("tlbtree.sub_index_split.2")},
    {"the old root stays taken", "sub-index", Bc(11), Ask("tlbtree.sub_index.root_stays")},
    {"entry not gone, durably, before its leaf is", "merge", Bc(2, 18), Forget("tlbtree.entry.3")},
    {"pairs not flushed", "merge", Bc(1), Forget("tlbtree.merge.1")},
    {"only the sibling's line flushed", "merge", Bc(1), Ask("tlbtree.merge.pairs_not_flushed")},
    {"pairs not fenced before the commit", "merge", Bc(3), DropFence("tlbtree.merge.1")},
    {"commit not fenced before the leaf is free", "merge", Bc(2, 21), DropFence("tlbtree.merge.2")},
    {"the leaf stays taken", "merge", Bc(11), Ask("tlbtree.merge.leaf_stays")},
    {"entry removed only behind the leaf", "merge", Bc(21, 25), Ask("tlbtree.merge.entry_stays")},
    {"root word not flushed", "sub-index merge", Bc(1), Forget("tlbtree.anchor.2")},
    {"the sub-index that is joined stays alive", "sub-index merge", Bc(21, 25),
     Ask("tlbtree.sub_index_merge.alive")},
    {"its header not flushed", "rebuild", Bc(1), Ask("node.two_generations.header_not_flushed")},
    {"new array not flushed", "rebuild", Bc(1), Forget("node.two_generations.1")},
    {"new array not fenced before the root", "rebuild", Bc(3), DropFence("node.two_generations.1")},
    {.name = "space not committed before the root",
     .group = "rebuild",
     .bugs = Bc(3, 5),
     .fault = Ask("node.two_generations.space_not_committed"),
     .workload = "swept",
     .options = "gaps=15"},
    {"root not flushed", "rebuild", Bc(1), Forget("node.two_generations.3")},
    {"old array never freed", "rebuild", Bc(11), Ask("node.two_generations.old_stays")},
    {"anchor unmarked", "sweep", Bc(25), Ask("tlbtree.sweep.anchor_unmarked")},
    {"root unmarked", "sweep", Bc(25), Ask("tlbtree.sweep.root_unmarked")},
    {"leaf unmarked", "sweep", Bc(25), Ask("tlbtree.sweep.leaf_unmarked")},
    {.name = "record of a bound unmarked",
     .group = "sweep",
     .bugs = Bc(25),
     .fault = Ask("tlbtree.sweep.bound_unmarked"),
     .in = In::kBytes,
     .workload = "swept"},
    {"record of a pair unmarked", "sweep", Bc(25), Ask("tlbtree.sweep.record_unmarked"),
     Under::kBoth, In::kBytes},
    // A dead anchor that the sweep had not seen, when nothing rebuilds the top layer: rare.
    {.name = "units that are unlinked meanwhile not held",
     .group = "sweep",
     .bugs = Bc(18, 25),
     .fault = Ask("tlbtree.sweep.unit_not_held"),
     .under = Under::kLinePrefix,
     .workload = "swept",
     .options = "rebuild_steps=0"},
    {"free space found before all is marked", "sweep", Bc(25), Ask("node.settle.space_first")},
    {"what a killed process had not flushed is believed", "first touch", Bc(12),
     Ask("tlbtree.touch.not_settled"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
};

constexpr auto kAllCanaries = WithBatchIntents(kCanaries);

constexpr Canary kScheduleCanaries[] = {
    {"an insert is seen before it is durable", "publication", Bc(9), LateFence("tlbtree.insert.3")},
    {"a value is seen before it is durable", "publication", Bc(9), LateFence("tlbtree.update.1")},
    {"a delete is seen before it is durable", "publication", Bc(9), LateFence("tlbtree.delete.1")},
    {"a group is seen before it is durable", "publication", Bc(9), LateFence("tlbtree.group.3")},
    {"space is given back under a reader",
     "epochs",
     Bc(21),
     {Fault::Kind::kIgnoreEpochs, ""},
     Under::kBoth,
     In::kBytes},
    {"single writers do not see batches", "batches", Bc(16), Ask("tlbtree.write.batches_ignored")},
    {"groups do not see batches", "batches", Bc(16), Ask("tlbtree.group.batches_ignored")},
    {"records that are replaced during the sweep not held", "sweep", Bc(18, 25),
     Ask("tlbtree.sweep.record_not_held"), Under::kBoth, In::kBytes},
    {"root of a batch is fenced too late", "batches", Bc(12), LateFence("node.batch_intent.2")},
};

constexpr DoesNotApply kClassesWithout[] = {
    {8, "locks and their versions are in tables in DRAM (node/striped_locks.h)"},
    {14, "there is no log: a batch's intent counts by a root word, which is cleared"},
    {17, "there is no log"},
    {19, "a leaf's lower bound is stored with it and never changes"},
    {23, "no outcome of a crash hangs on a checksum: what is not fenced is not linked"},
    {26, "nothing that an answer comes from is rebuilt in DRAM"},
};

// Leaf: state, slots, siblings.
constexpr Unseen kUnseen[] = {
    {"nodes", 16, 224, When::kKilled, How::kInPlace, Effect::kWrong, Standing::kNamed,
     "pairs that lie in their slots"},
};

template <class C>
void WriteNode(LayoutWriter& writer, const char* name) {
  using Node = tlbtree::media::Node<C>;
  writer.Struct(name, sizeof(Node));
  LODGEKV_FIELD(Node, state);
  LODGEKV_FIELD(Node, leftmost);
  LODGEKV_FIELD(Node, sibling);
  LODGEKV_FIELD(Node, slots);
  LODGEKV_FIELD(Node, children);
}

void WriteTop(LayoutWriter& writer) {
  using tlbtree::media::TopHeader;
  writer.Struct("TopHeader", sizeof(TopHeader));
  LODGEKV_FIELD(TopHeader, checksum);
  LODGEKV_FIELD(TopHeader, leaf_nodes);
  LODGEKV_FIELD(TopHeader, entries);
  LODGEKV_FIELD(TopHeader, prefix_bytes);
  LODGEKV_FIELD(TopHeader, prefix);
  using tlbtree::media::TopLeaf;
  writer.Struct("TopLeaf", sizeof(TopLeaf));
  LODGEKV_FIELD(TopLeaf, keys);
  LODGEKV_FIELD(TopLeaf, anchors);
}

void WriteLayouts(LayoutWriter& writer) {
  WriteNode<Fixed64Codec>(writer, "TlbTreeNodeFixed64");
  WriteNode<BytesCodec>(writer, "TlbTreeNodeBytes");
  using tlbtree::media::Anchor;
  writer.Struct("Anchor", sizeof(Anchor));
  LODGEKV_FIELD(Anchor, root);
  LODGEKV_FIELD(Anchor, next);
  LODGEKV_FIELD(Anchor, low);
  LODGEKV_FIELD(Anchor, low_meta);
  LODGEKV_FIELD(Anchor, low_check);
  WriteTop(writer);
  writer.Struct("TlbTreeEngineArea", sizeof(pmem::media::Header::engine_area));
  writer.Words("first_anchor", tlbtree::media::kFirstAnchor);
  writer.Words("top", tlbtree::media::kTop);
  writer.Words("intents", tlbtree::media::kIntents, BatchIntents::kRoots);
}

}  // namespace

const EngineRows& GetRows() {
  static constexpr EngineRows kRows = {
      .engine = "tlbtree",
      .canaries = kAllCanaries,
      .schedule_canaries = kScheduleCanaries,
      .classes_without = kClassesWithout,
      .unseen = kUnseen,
      .has_log = false,
      .write_layouts = WriteLayouts,
  };
  return kRows;
}

}  // namespace lodgekv::test::tlbtree_rows
