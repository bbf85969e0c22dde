// LB+-Tree: what its tests need to know.
#include "index/lbtree/layout.h"
#include "index/pmem/internal/pool_header.h"
#include "tests/engines/batch_intent_canaries.h"
#include "tests/engines/engine_rows.h"
#include "tests/engines/faults.h"
#include "tests/engines/layout_writer.h"

namespace lodgekv::test::lbtree_rows {
namespace {

constexpr Canary kCanaries[] = {
    {"first leaf not flushed", "creation", Bc(1, 7), Ask("lbtree.create.leaf_not_flushed")},
    {.name = "leaves not flushed",
     .group = "bulk load",
     .bugs = Bc(1),
     .fault = Forget("lbtree.bulk_load.1"),
     .by = By::kBulkLoad},
    {.name = "first leaf not flushed",
     .group = "bulk load",
     .bugs = Bc(1),
     .fault = DropFlushes("lbtree.bulk_load.1"),
     .by = By::kBulkLoad},
    {.name = "not fenced before the pool has an engine",
     .group = "bulk load",
     .bugs = Bc(2, 3),
     .fault = DropFence("lbtree.bulk_load.2"),
     .by = By::kBulkLoad},
    {"entries not flushed", "insert", Bc(1), Forget("lbtree.insert.1")},
    {"entries not fenced before the commit", "insert", Bc(3), DropFence("lbtree.insert.1")},
    {"commit not flushed", "insert", Bc(1), Forget("lbtree.insert.3")},
    {"the line behind the commit's is flushed", "insert", Bc(20), Misdirect("lbtree.insert.2")},
    {"commit not fenced", "insert", Bc(2), DropFence("lbtree.insert.3")},
    {"header before the entry", "insert", Bc(3), Ask("lbtree.insert.header_first")},
    {"moved entries count twice for a while", "insert", Bc(4, 6), Ask("lbtree.insert.two_words")},
    {"commit word torn", "insert", Bc(10), Ask("lbtree.insert.torn_commit")},
    {"record not flushed", "record", Bc(1), Forget("lbtree.record.1"), Under::kBoth, In::kBytes},
    {"record not fenced before it is linked", "record", Bc(3), DropFence("lbtree.record.1"),
     Under::kBoth, In::kBytes},
    {"value not flushed", "update", Bc(1), Forget("lbtree.update.1")},
    {"value not fenced", "update", Bc(2), DropFence("lbtree.update.1")},
    {"records of replaced values stay", "update", Bc(11), Ask("lbtree.update.record_stays"),
     Under::kBoth, In::kBytes},
    {"entries not flushed", "group", Bc(1), Forget("lbtree.group.1")},
    {"entries not fenced before the commits", "group", Bc(3), DropFence("lbtree.group.1")},
    {"commits not flushed", "group", Bc(1), Forget("lbtree.group.3")},
    {"commits not fenced", "group", Bc(2), DropFence("lbtree.group.3")},
    {"the line behind a commit's is flushed", "group", Bc(20), Misdirect("lbtree.group.2")},
    {"records of replaced values stay", "group", Bc(11), Ask("lbtree.group.records_stay"),
     Under::kBoth, In::kBytes},
    {"record not fenced before its value", "group", Bc(3), Ask("lbtree.group.value_not_fenced"),
     Under::kBoth, In::kBytes},
    {"an operation overtakes one of its key", "group", Bc(16), Ask("node.group_writes.overtakes")},
    {"new leaves not flushed", "group split", Bc(1), Ask("lbtree.group.leaf_not_flushed")},
    {"sibling not flushed", "group split", Bc(1), Ask("lbtree.group.sibling_not_flushed")},
    {"a new leaf that splits keeps its sibling", "group split", Bc(4),
     Ask("lbtree.group.new_sibling_stays")},
    // With words that may tear there is a fence anyway.
    {.name = "not fenced before the commits",
     .group = "group split",
     .bugs = Bc(3),
     .fault = Ask("lbtree.group.split_not_fenced"),
     .under = Under::kLinePrefix},
    {"pair in the slot of a moved entry", "group split", Bc(5), Ask("lbtree.group.reuse_at_once")},
    {.name = "alternative headers not written anew",
     .group = "group split",
     .bugs = Bc(25),
     .fault = Ask("lbtree.group.headers_stay"),
     .options = "leaf_blocks=2"},
    {"right leaf not flushed", "leaf split", Bc(1), Ask("lbtree.split.leaf_not_flushed")},
    {"both leaves not flushed", "leaf split", Bc(1), Forget("lbtree.split.1")},
    {"not fenced before the commit", "leaf split", Bc(3), DropFence("lbtree.split.1")},
    {"commit not flushed", "leaf split", Bc(1), Forget("lbtree.split.2")},
    {"sibling after the commit", "leaf split", Bc(3), Ask("lbtree.split.sibling_after_commit")},
    {"bitmap and alt in two stores", "leaf split", Bc(4, 6), Ask("lbtree.split.two_words")},
    // Theorem 3.3, second case.
    {"pair in the slot of a moved entry", "leaf split", Bc(5), Ask("lbtree.split.reuse_at_once")},
    {.name = "alternative headers not written anew",
     .group = "leaf split",
     .bugs = Bc(25),
     .fault = Ask("lbtree.split.headers_stay"),
     .options = "leaf_blocks=2"},
    {"bit not flushed", "delete", Bc(1), Forget("lbtree.delete.1")},
    {"bit not fenced", "delete", Bc(2), DropFence("lbtree.delete.1")},
    {"sibling not flushed", "unlinking", Bc(1), Forget("lbtree.unlink.1")},
    {"sibling not fenced before the leaf is free", "unlinking", Bc(2, 21),
     DropFence("lbtree.unlink.1")},
    {"the leaf stays taken", "unlinking", Bc(11), Ask("lbtree.unlink.leaf_stays")},
    {"what a walk from a free leaf has is taken", "recovery", Bc(18),
     Ask("node.chain_walk.whole_walks")},
    {"separator is not the least key", "recovery", Bc(19, 26),
     Ask("lbtree.recovery.wrong_separator")},
    {"what a killed process had not flushed is believed", "settling", Bc(12),
     Ask("node.settle.no_touch"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    {"the leaf that an unflushed commit leads to is believed", "settling", Bc(12),
     Ask("node.settle.no_reach"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    {"the neighbour that had the key is not settled", "settling", Bc(12),
     Ask("node.settle.no_neighbour"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    {"free space used before all is settled", "settling", Bc(12, 21),
     Ask("node.settle.space_first"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
};

constexpr auto kAllCanaries = WithBatchIntents(kCanaries);

constexpr Canary kScheduleCanaries[] = {
    {"an insert is seen before it is durable", "publication", Bc(9), LateFence("lbtree.insert.3")},
    {"a value is seen before it is durable", "publication", Bc(9), LateFence("lbtree.update.1")},
    {"a delete is seen before it is durable", "publication", Bc(9), LateFence("lbtree.delete.1")},
    {"a group is seen before it is durable", "publication", Bc(9), LateFence("lbtree.group.3")},
    {"space is given back under a reader",
     "epochs",
     Bc(21),
     {Fault::Kind::kIgnoreEpochs, ""},
     Under::kBoth,
     In::kBytes},
    {"single writers do not see batches", "batches", Bc(16), Ask("lbtree.write.batches_ignored")},
    {"groups do not see batches", "batches", Bc(16), Ask("lbtree.group.batches_ignored")},
    {"root of a batch is fenced too late", "batches", Bc(12), LateFence("node.batch_intent.2")},
};

constexpr DoesNotApply kClassesWithout[] = {
    {8, "locks and their versions are in a table in DRAM (node/striped_locks.h)"},
    {14, "there is no log: a batch's intent counts by a root word, which is cleared"},
    {17, "there is no log"},
    {23, "no outcome of a crash hangs on a checksum: what is not fenced is not linked"},
};

// A leaf of one block: header, slots, siblings.
constexpr Unseen kUnseen[] = {
    {"nodes", 16, 240, When::kKilled, How::kInPlace, Effect::kWrong, Standing::kNamed,
     "pairs that lie in their slots"},
};

void WriteLayouts(LayoutWriter& writer) {
  using lbtree::media::Block;
  writer.Struct("Block", sizeof(Block));
  LODGEKV_FIELD(Block, header);
  LODGEKV_FIELD(Block, slots);
  LODGEKV_FIELD(Block, tail);
  writer.Struct("LbTreeEngineArea", sizeof(pmem::media::Header::engine_area));
  writer.Words("first_leaf", lbtree::media::kFirstLeaf);
  writer.Words("blocks", lbtree::media::kBlocks);
  writer.Words("intents", lbtree::media::kIntents, BatchIntents::kRoots);
  writer.Words("positions", lbtree::media::kPositions, lbtree::kLeafPositions);
}

}  // namespace

const EngineRows& GetRows() {
  static constexpr EngineRows kRows = {
      .engine = "lbtree",
      .canaries = kAllCanaries,
      .schedule_canaries = kScheduleCanaries,
      .classes_without = kClassesWithout,
      .unseen = kUnseen,
      .has_log = false,
      .write_layouts = WriteLayouts,
  };
  return kRows;
}

}  // namespace lodgekv::test::lbtree_rows
