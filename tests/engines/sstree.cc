// SSTree: what its tests need to know.
#include "index/pmem/internal/pool_header.h"
#include "index/sstree/layout.h"
#include "tests/engines/batch_intent_canaries.h"
#include "tests/engines/engine_rows.h"
#include "tests/engines/faults.h"
#include "tests/engines/layout_writer.h"

namespace lodgekv::test::sstree_rows {
namespace {

constexpr Canary kCanaries[] = {
    {.name = "subnodes not flushed",
     .group = "bulk load",
     .bugs = Bc(1),
     .fault = Forget("sstree.bulk_load.1"),
     .by = By::kBulkLoad},
    {.name = "not fenced before the pool has an engine",
     .group = "bulk load",
     .bugs = Bc(2, 3),
     .fault = DropFence("sstree.bulk_load.1"),
     .by = By::kBulkLoad},
    {"word not flushed", "one line", Bc(1), Forget("sstree.head.2")},
    {"word not fenced", "one line", Bc(2), DropFence("sstree.head.2")},
    {"word before the pair", "one line", Bc(3), Ask("sstree.head.word_first"), Under::kLinePrefix},
    {"record not fenced before the word", "one line", Bc(3), DropFence("sstree.head.1"),
     Under::kLinePrefix, In::kBytes},
    {"pairs not flushed", "change", Bc(1), Forget("sstree.change.1")},
    {"pairs not fenced before the commit", "change", Bc(3), DropFence("sstree.change.1")},
    {"commit not flushed", "change", Bc(1), Forget("sstree.change.3")},
    {"the line behind the commit's is flushed", "change", Bc(20), Misdirect("sstree.change.2")},
    {"commit not fenced", "change", Bc(2), DropFence("sstree.change.3")},
    {"word before the pair", "change", Bc(3), Ask("sstree.change.word_first")},
    {"commit word torn", "change", Bc(10), Ask("sstree.change.torn_commit")},
    {"record not flushed", "record", Bc(1), Forget("sstree.record.1"), Under::kBoth, In::kBytes},
    {"record not fenced before it is linked", "record", Bc(3), DropFence("sstree.record.1"),
     Under::kBoth, In::kBytes},
    {"value not flushed", "update", Bc(1), Forget("sstree.update.1")},
    {"value not fenced", "update", Bc(2), DropFence("sstree.update.1")},
    {"records of replaced values stay", "update", Bc(11), Ask("sstree.update.record_stays"),
     Under::kBoth, In::kBytes},
    {"new head not flushed", "head replacement", Bc(1), Forget("sstree.replace.2")},
    {"next pointer before the word", "head replacement", Bc(3), Ask("sstree.replace.next_first")},
    {"word without the old head's bits", "head replacement", Bc(4, 6),
     Ask("sstree.replace.two_words")},
    {"new places not flushed", "item movement", Bc(1), Forget("sstree.move.1")},
    {"new places not fenced before the commit", "item movement", Bc(3), DropFence("sstree.move.1")},
    {"moved in two words", "item movement", Bc(4, 6), Ask("sstree.move.two_words")},
    {"free tag not flushed", "subnode reclamation", Bc(1, 18), Forget("sstree.reclaim.1")},
    {"free tag not fenced before the commit", "subnode reclamation", Bc(3, 18),
     DropFence("sstree.reclaim.1")},
    {"free tag never stored", "subnode reclamation", Bc(18), Ask("sstree.reclaim.tag_last")},
    {.name = "freed before the list's end is durable",
     .group = "subnode reclamation",
     .bugs = Bc(21),
     .fault = Ask("sstree.reclaim.free_at_once"),
     .workload = "crowds",
     .options = "subnodes=4"},
    {"slots used again before the commit", "group", Bc(5), Ask("sstree.group.reuse_at_once")},
    {"pairs not flushed", "group", Bc(1), Forget("sstree.group.1")},
    {"pairs not fenced before the commits", "group", Bc(3), DropFence("sstree.group.1")},
    {"commits not flushed", "group", Bc(1), Forget("sstree.group.3")},
    {"commits not fenced", "group", Bc(2), DropFence("sstree.group.3")},
    {"the line behind a commit's is flushed", "group", Bc(20), Misdirect("sstree.group.2")},
    {"records of replaced values stay", "group", Bc(11), Ask("sstree.group.records_stay"),
     Under::kBoth, In::kBytes},
    {"record not fenced before its value", "group", Bc(3), Ask("sstree.group.value_not_fenced"),
     Under::kBoth, In::kBytes},
    {"an operation overtakes one of its key", "group", Bc(16), Ask("node.group_writes.overtakes")},
    {"new leaves not flushed", "group split", Bc(1), Ask("sstree.group_split.leaf_not_flushed")},
    {"next pointers of new leaves not flushed", "group split", Bc(1),
     Forget("sstree.group_split.1")},
    {"new leaves not fenced before the commits", "group split", Bc(3),
     DropFence("sstree.group_split.1")},
    {.name = "no pair stays that was there before",
     .group = "group split",
     .bugs = Bc(6, 12),
     .fault = Ask("sstree.group_split.none_stays"),
     .workload = "throngs",
     .options = "subnodes=2"},
    {"new leaf not flushed", "leaf split", Bc(1), Ask("sstree.split.leaf_not_flushed")},
    {"new leaf not fenced before it is a head", "leaf split", Bc(3), DropFence("sstree.split.1")},
    {"next pointer not flushed", "leaf split", Bc(1), Forget("sstree.split.2")},
    {"next pointer not fenced before the old leaf's word", "leaf split", Bc(3),
     DropFence("sstree.split.2")},
    {"old leaf's word not flushed", "leaf split", Bc(1), Forget("sstree.split.3")},
    {"the old leaf lets go first", "leaf split", Bc(3, 7), Ask("sstree.split.clear_first")},
    {"free tag not flushed", "drop", Bc(1, 18), Forget("sstree.drop.1")},
    {"free tag not fenced", "drop", Bc(2, 18), DropFence("sstree.drop.1")},
    {"the subnode stays taken", "drop", Bc(11), Ask("sstree.drop.head_stays")},
    {"separator is not the least key", "recovery", Bc(19, 26),
     Ask("sstree.recovery.wrong_separator")},
    {"keys of a split stay in both leaves", "recovery", Bc(6, 25),
     Ask("sstree.recovery.overlaps_stay")},
    {"reclamation finished whatever the word says", "recovery", Bc(12),
     Ask("sstree.recovery.never_undone")},
    {"what a killed process had not flushed is believed", "settling", Bc(12),
     Ask("node.settle.no_touch"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    {"the neighbour that had the key is not settled", "settling", Bc(12),
     Ask("node.settle.no_neighbour"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    {.name = "free space used before all is settled",
     .group = "settling",
     .bugs = Bc(12, 21),
     .fault = Ask("node.settle.space_first"),
     .under = Under::kLinePrefix,
     .by = By::kKillThenCut,
     .options = "entry_moving=0"},
    {"free tags not flushed before the first answer", "settling", Bc(12, 18),
     Ask("sstree.recovery.tags_not_flushed"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    {"what is mended is not flushed before", "settling", Bc(12),
     Ask("sstree.recovery.mends_unsettled"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
};

constexpr auto kAllCanaries = WithBatchIntents(kCanaries);

constexpr Canary kScheduleCanaries[] = {
    {"a change is seen before it is durable", "publication", Bc(9), LateFence("sstree.change.3")},
    {"one line is seen before it is durable", "publication", Bc(9), LateFence("sstree.head.2")},
    {"a value is seen before it is durable", "publication", Bc(9), LateFence("sstree.update.1")},
    {"a dropped leaf is missed before that is durable", "publication", Bc(9),
     LateFence("sstree.drop.1")},
    {"a group is seen before it is durable", "publication", Bc(9), LateFence("sstree.group.3")},
    {"space is given back under a reader",
     "epochs",
     Bc(21),
     {Fault::Kind::kIgnoreEpochs, ""},
     Under::kBoth,
     In::kBytes},
    {"single writers do not see batches", "batches", Bc(16), Ask("sstree.write.batches_ignored")},
    {"groups do not see batches", "batches", Bc(16), Ask("sstree.group.batches_ignored")},
    {"root of a batch is fenced too late", "batches", Bc(12), LateFence("node.batch_intent.2")},
};

constexpr DoesNotApply kClassesWithout[] = {
    {8, "locks and their versions are in DRAM, in each leaf's metadata"},
    {14, "there is no log: a batch's intent counts by a root word, which is cleared"},
    {17, "there is no log"},
    {23, "no outcome of a crash hangs on a checksum: what is not fenced is not linked"},
};

constexpr Unseen kUnseen[] = {
    {"nodes", 32, 256, When::kKilled, How::kInPlace, Effect::kWrong, Standing::kNamed,
     "pairs that lie in their slots"},
};

void WriteLayouts(LayoutWriter& writer) {
  using sstree::media::Subnode;
  writer.Struct("Subnode", sizeof(Subnode));
  LODGEKV_FIELD(Subnode, next);
  LODGEKV_FIELD(Subnode, word);
  LODGEKV_FIELD(Subnode, fingerprints);
  LODGEKV_FIELD(Subnode, slots);
  writer.Struct("SsTreeEngineArea", sizeof(pmem::media::Header::engine_area));
  writer.Words("intents", sstree::media::kIntents, BatchIntents::kRoots);
}

}  // namespace

const EngineRows& GetRows() {
  static constexpr EngineRows kRows = {
      .engine = "sstree",
      .canaries = kAllCanaries,
      .schedule_canaries = kScheduleCanaries,
      .classes_without = kClassesWithout,
      .unseen = kUnseen,
      .has_log = false,
      .write_layouts = WriteLayouts,
  };
  return kRows;
}

}  // namespace lodgekv::test::sstree_rows
