// SPTree: what its tests need to know.
#include "index/node/log_layout.h"
#include "index/pmem/internal/pool_header.h"
#include "index/sptree/layout.h"
#include "index/sptree/top_backup.h"
#include "tests/engines/batch_intent_canaries.h"
#include "tests/engines/engine_rows.h"
#include "tests/engines/faults.h"
#include "tests/engines/layout_writer.h"

namespace lodgekv::test::sptree_rows {
namespace {

// With write buffers, which are off by default.
constexpr Canary Buffered(Canary canary) {
  canary.options = "write_buffer_pairs=5";
  return canary;
}

// Without two-phase insertion.
constexpr Canary PairByPair(Canary canary) {
  canary.options = "write_buffer_pairs=5 two_phase=0";
  return canary;
}

// Where recovery walks all leaves.
constexpr Canary Walked(Canary canary) {
  canary.options = "backup=0";
  return canary;
}

constexpr Canary kCanaries[] = {
    {"first leaf not flushed", "creation", Bc(1, 7), Ask("sptree.create.leaf_not_flushed")},
    {.name = "leaves not flushed",
     .group = "bulk load",
     .bugs = Bc(1),
     .fault = Forget("sptree.bulk_load.1"),
     .by = By::kBulkLoad},
    {.name = "first leaf not flushed",
     .group = "bulk load",
     .bugs = Bc(1),
     .fault = DropFlushes("sptree.bulk_load.1"),
     .by = By::kBulkLoad},
    {.name = "not fenced before the pool has an engine",
     .group = "bulk load",
     .bugs = Bc(2, 3),
     .fault = DropFence("sptree.bulk_load.2"),
     .by = By::kBulkLoad},
    {"pairs not flushed", "change", Bc(1), Forget("sptree.change.1")},
    {"tags not flushed", "change", Bc(1), Ask("sptree.change.tags_not_flushed")},
    {"pairs not fenced before the commit", "change", Bc(3), DropFence("sptree.change.1")},
    {"commit not flushed", "change", Bc(1), Forget("sptree.change.3")},
    {"the line behind the commit's is flushed", "change", Bc(20), Misdirect("sptree.change.2")},
    {"commit not fenced", "change", Bc(2), DropFence("sptree.change.3")},
    {"bitmap before the pair", "change", Bc(3), Ask("sptree.change.bitmap_first")},
    {"commit word torn", "change", Bc(10), Ask("sptree.change.torn_commit")},
    {"a key is not in its leaf's filter", "change", Bc(25), Ask("sptree.change.key_not_in_filter")},
    {"record not flushed", "record", Bc(1), Forget("sptree.record.1"), Under::kBoth, In::kBytes},
    {"record not fenced before it is linked", "record", Bc(3), DropFence("sptree.record.1"),
     Under::kBoth, In::kBytes},
    {"value not flushed", "update", Bc(1), Forget("sptree.update.1")},
    {"value not fenced", "update", Bc(2), DropFence("sptree.update.1")},
    {"records of replaced values stay", "update", Bc(11), Ask("sptree.update.record_stays"),
     Under::kBoth, In::kBytes},
    {"slots used again before the commit", "group", Bc(5), Ask("sptree.group.reuse_at_once")},
    {"pairs not flushed", "group", Bc(1), Forget("sptree.group.1")},
    {"pairs not fenced before the commits", "group", Bc(3), DropFence("sptree.group.1")},
    {"commits not flushed", "group", Bc(1), Forget("sptree.group.3")},
    {"commits not fenced", "group", Bc(2), DropFence("sptree.group.3")},
    {"the line behind a commit's is flushed", "group", Bc(20), Misdirect("sptree.group.2")},
    {"records of replaced values stay", "group", Bc(11), Ask("sptree.group.records_stay"),
     Under::kBoth, In::kBytes},
    {"record not fenced before its value", "group", Bc(3), Ask("sptree.group.value_not_fenced"),
     Under::kBoth, In::kBytes},
    {"an operation overtakes one of its key", "group", Bc(16), Ask("node.group_writes.overtakes")},
    Buffered({"entry not flushed", "log append", Bc(1), Forget("node.log_append.1")}),
    Buffered({"entry not fenced", "log append", Bc(2), DropFence("node.log_append.1")}),
    Buffered({"checksum without the log's version", "log append", Bc(14, 23),
              Ask("node.log_reader.any_version")}),
    Buffered({"header not flushed", "log header", Bc(1), Forget("node.log_header.1")}),
    Buffered({"header not fenced", "log header", Bc(3), DropFence("node.log_header.1")}),
    Buffered({"pairs not flushed", "flush", Bc(1), Forget("sptree.flush.1")}),
    Buffered({"pairs not fenced before the commit", "flush", Bc(3), DropFence("sptree.flush.1")}),
    Buffered({"commit not flushed", "flush", Bc(1), Forget("sptree.flush.4")}),
    Buffered(
        {"commit not fenced before log counts fall", "flush", Bc(2), DropFence("sptree.flush.4")}),
    Buffered({"no fence between bitmap and watermark", "flush", Bc(3), DropFence("sptree.flush.3"),
              Under::kTornWords}),
    Buffered(
        {"watermark before the pairs' fence", "flush", Bc(3), Ask("sptree.flush.watermark_first")}),
    Buffered({"a buffered delete does not reach the leaf", "flush", Bc(12),
              Ask("sptree.flush.tombstone_dropped")}),
    Buffered({"own number as watermark", "flush", Bc(15), Ask("sptree.flush.own_number")}),
    PairByPair({"pair not flushed", "flush alone", Bc(1), Forget("sptree.flush_alone.1")}),
    PairByPair({"pair not fenced before the commit", "flush alone", Bc(3),
                DropFence("sptree.flush_alone.1")}),
    Buffered({"watermark ignored", "replay", Bc(15), Ask("node.log_replay.no_watermark")}),
    Buffered({"order by log instead of number", "replay", Bc(15, 16),
              Ask("node.log_replay.order_by_log")}),
    Buffered({"checksum of an entry not verified", "replay", Bc(23),
              Ask("node.log_reader.checksum_ignored")}),
    Buffered({"an entry without its record ends the log", "replay", Bc(17),
              Ask("node.log_replay.stops_at_hole"), Under::kBoth, In::kBytes}),
    Buffered({"any record of the right place is taken", "replay", Bc(12, 23),
              Ask("node.log_replay.any_record"), Under::kBoth, In::kBytes}),
    Buffered({"entries replayed are not counted in their log", "replay", Bc(26),
              Ask("node.log_replay.not_counted")}),
    Buffered({"records given back above the horizon", "horizon", Bc(21),
              Ask("node.fence_horizon.stays"), Under::kBoth, In::kBytes}),
    Buffered({"horizon not flushed", "horizon", Bc(1), Forget("node.fence_horizon.1"), Under::kBoth,
              In::kBytes}),
    Buffered({"horizon not fenced", "horizon", Bc(3), DropFence("node.fence_horizon.1"),
              Under::kBoth, In::kBytes}),
    Buffered({"replay in order of keys", "replay", Bc(16), Ask("node.log_replay.replay_by_key")}),
    Buffered({"a dropped group is not made unreadable", "replay", Bc(13),
              Forget("node.log_replay.1"), Under::kBoth, In::kBytes}),
    {"new leaves not flushed", "group split", Bc(1), Ask("sptree.group_split.leaf_not_flushed")},
    {"leaves let go of pairs before the new ones are linked", "group split", Bc(3, 4, 7),
     Ask("sptree.group_split.bitmap_first")},
    {.name = "links not fenced before the bitmaps",
     .group = "group split",
     .bugs = Bc(3),
     .fault = DropFence("sptree.group_split.1"),
     .under = Under::kTornWords},
    {"new leaf not flushed", "leaf split", Bc(1), Ask("sptree.split.leaf_not_flushed")},
    {"new leaf and its fence not flushed", "leaf split", Bc(1), Forget("sptree.split.1")},
    {"new leaf not fenced before it is linked", "leaf split", Bc(3), DropFence("sptree.split.1")},
    {"link and bitmap not flushed", "leaf split", Bc(1), Forget("sptree.split.3")},
    // P7 of the review: half of the leaf's keys are lost.
    {"the leaf lets go of pairs before the new one is linked", "leaf split", Bc(3, 4, 7),
     Ask("sptree.split.bitmap_first")},
    {.name = "link not fenced before the bitmap",
     .group = "leaf split",
     .bugs = Bc(3),
     .fault = DropFence("sptree.split.2"),
     .under = Under::kTornWords},
    {"moved pairs and mark not flushed", "leaf merge", Bc(1), Forget("sptree.merge.1")},
    {"moved pairs not fenced before the bitmap", "leaf merge", Bc(3), DropFence("sptree.merge.1")},
    {"bitmap and link not flushed", "leaf merge", Bc(1), Forget("sptree.merge.3")},
    {"link not fenced before the leaf is free", "leaf merge", Bc(2, 21),
     DropFence("sptree.merge.3")},
    // P8 of the review.
    {"the right leaf is left out before its pairs count", "leaf merge", Bc(3, 4),
     Ask("sptree.merge.next_first")},
    {.name = "bitmap not fenced before the link",
     .group = "leaf merge",
     .bugs = Bc(3),
     .fault = DropFence("sptree.merge.2"),
     .under = Under::kTornWords},
    // Torn words leave so many images that with some seeds none of this kind is drawn.
    Buffered({"watermark of the left leaf", "leaf merge", Bc(25), Ask("sptree.merge.low_watermark"),
              Under::kLinePrefix}),
    {"the right leaf stays taken", "leaf merge", Bc(11), Ask("sptree.merge.leaf_stays")},
    {"the right leaf is not marked", "leaf merge", Bc(21, 25), Ask("sptree.merge.not_marked")},
    {"new backup not flushed", "backup", Bc(1), Forget("node.two_generations.1")},
    {"new backup not fenced before the root", "backup", Bc(3), DropFence("node.two_generations.1")},
    {"root not flushed", "backup", Bc(1), Forget("node.two_generations.3")},
    {"old backup never freed", "backup", Bc(11), Ask("node.two_generations.old_stays")},
    {"space of a leaf given back that a backup names", "backup", Bc(18, 21),
     Ask("sptree.backup.dropped_leaf_freed")},
    {"a new backup takes over a leaf that was dropped", "backup", Bc(18, 21),
     Ask("sptree.backup.dropped_stays")},
    {"an entry is believed although its leaf is marked", "first touch", Bc(21, 25),
     Ask("sptree.touch.dropped_believed")},
    {"what a killed process had not flushed is believed", "first touch", Bc(12),
     Ask("sptree.touch.not_settled"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    Buffered({"a leaf does not take what the log has of it", "first touch", Bc(12),
              Ask("sptree.touch.log_not_taken")}),
    Buffered({"records of what it takes are not marked", "first touch", Bc(21),
              Ask("sptree.touch.log_not_marked"), Under::kBoth, In::kBytes}),
    Buffered({"a log is not held until all of it is judged", "first touch", Bc(12, 21),
              Ask("sptree.touch.log_not_held")}),
    {"what a walk from a free leaf has is taken", "recovery", Bc(18),
     Ask("node.chain_walk.whole_walks")},
    // P8 of the review: they come back into range with a later merge.
    {"copies out of a leaf's range stay", "recovery", Bc(6, 19, 26),
     Ask("sptree.recovery.copies_stay")},
    Walked({"what a killed process had not flushed is believed", "settling", Bc(12),
            Ask("node.settle.no_touch"), Under::kLinePrefix, In::kAny, By::kKillThenCut}),
    Walked({"the leaf that an unflushed commit leads to is believed", "settling", Bc(12),
            Ask("node.settle.no_reach"), Under::kLinePrefix, In::kAny, By::kKillThenCut}),
    {"free space used before all is settled", "settling", Bc(12, 21),
     Ask("node.settle.space_first"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    // Otherwise the link is in the line of the bitmap that is mended, and was stored before it.
    Walked({"what is mended is not flushed before", "settling", Bc(12),
            Ask("sptree.recovery.mends_unsettled"), Under::kTornWords, In::kAny, By::kKillThenCut}),
};

constexpr auto kAllCanaries = WithBatchIntents(kCanaries);

constexpr Canary kScheduleCanaries[] = {
    {"a change is seen before it is durable", "publication", Bc(9), LateFence("sptree.change.3")},
    {"a value is seen before it is durable", "publication", Bc(9), LateFence("sptree.update.1")},
    {"a group is seen before it is durable", "publication", Bc(9), LateFence("sptree.group.3")},
    {"space is given back under a reader",
     "epochs",
     Bc(21),
     {Fault::Kind::kIgnoreEpochs, ""},
     Under::kBoth,
     In::kBytes},
    {"single writers do not see batches", "batches", Bc(16), Ask("sptree.write.batches_ignored")},
    {"groups do not see batches", "batches", Bc(16), Ask("sptree.group.batches_ignored")},
    {"root of a batch is fenced too late", "batches", Bc(12), LateFence("node.batch_intent.2")},
};

constexpr DoesNotApply kClassesWithout[] = {
    {8, "locks and their versions are in DRAM, in each leaf's Mnode"},
};

constexpr Unseen kUnseen[] = {
    {"nodes", 0, 8, When::kKilled, How::kAny, Effect::kMissing, Standing::kNamed,
     "a leaf's bitmap"},
    {"nodes", 128, 1152, When::kKilled, How::kInPlace, Effect::kWrong, Standing::kNamed,
     "pairs that lie in their slots"},
    {"logs", sizeof(media::LogHeader), kToTheEnd, When::kKilled, How::kBuffered, Effect::kWrong,
     Standing::kNamed, "last groups of a log: as if they had never been fenced"},
    {"records", 0, kToTheEnd, When::kKilled, How::kBuffered, Effect::kWrong, Standing::kNamed,
     "record that only a log knows: as if its group had never been fenced, or as if another record "
     "had its space"},
};

void WriteLayouts(LayoutWriter& writer) {
  using sptree::media::BackupEntry;
  using sptree::media::Bnode;
  writer.Struct("Bnode", sizeof(Bnode));
  LODGEKV_FIELD(Bnode, bitmap);
  LODGEKV_FIELD(Bnode, watermark);
  LODGEKV_FIELD(Bnode, next);
  LODGEKV_FIELD(Bnode, lkey);
  LODGEKV_FIELD(Bnode, dropped);
  LODGEKV_FIELD(Bnode, unused);
  LODGEKV_FIELD(Bnode, tags);
  LODGEKV_FIELD(Bnode, slots);
  LODGEKV_FIELD(Bnode, beyond);
  writer.Struct("BackupEntry", sizeof(BackupEntry));
  LODGEKV_FIELD(BackupEntry, low);
  LODGEKV_FIELD(BackupEntry, leaf);
  writer.Struct("SpTreeEngineArea", sizeof(pmem::media::Header::engine_area));
  writer.Words("first_leaf", sptree::media::kFirstLeaf);
  writer.Words("intents", sptree::media::kIntents, BatchIntents::kRoots);
  writer.Words("fenced_below", sptree::media::kFencedBelow);
  writer.Words("backup", sptree::media::kBackup);
}

}  // namespace

const EngineRows& GetRows() {
  static constexpr EngineRows kRows = {
      .engine = "sptree",
      .canaries = kAllCanaries,
      .schedule_canaries = kScheduleCanaries,
      .classes_without = kClassesWithout,
      .unseen = kUnseen,
      .has_log = false,
      .write_layouts = WriteLayouts,
  };
  return kRows;
}

}  // namespace lodgekv::test::sptree_rows
