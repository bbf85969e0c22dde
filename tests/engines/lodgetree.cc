// LodgeTree: what its tests need to know.
#include "index/lodgetree/layout.h"
#include "index/node/log_layout.h"
#include "index/pmem/internal/pool_header.h"
#include "tests/engines/engine_rows.h"
#include "tests/engines/faults.h"
#include "tests/engines/layout_writer.h"

namespace lodgekv::test::lodgetree_rows {
namespace {

constexpr Canary kCanaries[] = {
    {"first leaf not flushed", "creation", Bc(1, 7), Ask("lodgetree.create.leaf_not_flushed")},
    {"entry not flushed", "log append", Bc(1), Forget("node.log_append.1")},
    {"entry not fenced", "log append", Bc(2), DropFence("node.log_append.1")},
    {"checksum without the log's version", "log append", Bc(14, 23),
     Ask("node.log_reader.any_version")},
    {"header not flushed", "log header", Bc(1), Forget("node.log_header.1")},
    {"header not fenced", "log header", Bc(3), DropFence("node.log_header.1")},
    // Three uses of one chunk across two crashes: too rare for the explorer.
    {"old headers stay in a chunk that is given back", "log header", Bc(14, 18),
     Forget("pmem.zero_heads.1"), Under::kBoth, In::kAny, By::kReleasedLogs},
    {"old headers not gone before the chunk is", "log header", Bc(3, 18),
     DropFence("pmem.zero_heads.1"), Under::kBoth, In::kAny, By::kReleasedLogs},
    {"slots not flushed", "flush", Bc(1), Forget("lodgetree.flush.1")},
    {"slots not fenced before the commit", "flush", Bc(3), DropFence("lodgetree.flush.1")},
    {"commit not flushed", "flush", Bc(1), DropFlushes("lodgetree.flush.2")},
    {"the line behind the commit's is flushed", "flush", Bc(20), Misdirect("lodgetree.flush.2")},
    {"no fence between commit and watermark", "flush", Bc(3),
     Ask("lodgetree.close.watermark_at_once"), Under::kTornWords},
    // Right on a file, whose fences are long, and on persistent memory, whose words do not tear.
    {"short fences are taken for words in order",
     "flush",
     Bc(3),
     {Fault::Kind::kOrderByFences},
     Under::kTornWords},
    {"watermark before the slots' fence", "flush", Bc(3), Ask("lodgetree.flush.watermark_first")},
    {"watermark before the commit", "flush", Bc(3), Ask("lodgetree.flush.watermark_before_commit")},
    {"own number as watermark", "flush", Bc(15), Ask("lodgetree.flush.own_number")},
    {"records of replaced pairs stay", "flush", Bc(11), Ask("lodgetree.flush.unlinked_stay"),
     Under::kBoth, In::kBytes},
    {"log counts fall while commits are open", "open commits", Bc(2),
     Ask("lodgetree.close.logs_at_once")},
    {"records are retired while commits are open", "open commits", Bc(2, 21),
     Ask("lodgetree.close.records_at_once"), Under::kBoth, In::kBytes},
    {"a drain over the thread's own open commits", "open commits", Bc(5),
     Ask("lodgetree.close.own_node")},
    {"a drain over another thread's open commits", "open commits", Bc(5),
     Ask("lodgetree.close.others_node")},
    {"another thread's commits are not flushed again", "open commits", Bc(1, 5),
     Ask("lodgetree.close.others_not_flushed")},
    {"leaves merge over open commits", "open commits", Bc(3), Ask("lodgetree.close.merged_leaves")},
    {"log counts fall before watermarks are durable", "open commits", Bc(2, 15),
     Ask("lodgetree.close.before_watermarks"), Under::kTornWords},
    {"a group's own new value in place", "group", Bc(3), Ask("lodgetree.group.update_in_place")},
    {"watermark above what waits for the next round", "group", Bc(15),
     Ask("lodgetree.group.watermark_of_all"), Under::kBoth, In::kAny, By::kExplorer, "throngs"},
    {"leaves merge before the rest is buffered", "group", Bc(25),
     Ask("lodgetree.group.merge_first")},
    {"an operation overtakes one of its key", "group", Bc(16), Ask("lodgetree.group.overtakes")},
    {"new leaf not flushed", "leaf split", Bc(1), Ask("lodgetree.split.leaf_not_flushed")},
    {"next pointer after the commit", "leaf split", Bc(3),
     Ask("lodgetree.split.next_after_commit")},
    {"bitmap and use_n in two stores", "leaf split", Bc(4, 6), Ask("lodgetree.split.two_words")},
    {"commit word torn", "leaf split", Bc(10), Ask("lodgetree.split.torn_commit")},
    {"pairs not flushed", "second commit", Bc(1), Forget("lodgetree.flush.4")},
    {"pairs not fenced before the commit", "second commit", Bc(3), DropFence("lodgetree.flush.4")},
    {"commit not flushed", "second commit", Bc(1), DropFlushes("lodgetree.flush.5")},
    // The leaf is half rebuilt at that point.
    {"watermark with the first commit", "second commit", Bc(22),
     Ask("lodgetree.second_commit.watermark"), Under::kLinePrefix},
    {"slot used again before it is free", "second commit", Bc(5),
     Ask("lodgetree.second_commit.reuse_at_once")},
    {"pairs not flushed", "leaf merge", Bc(1), Forget("lodgetree.merge.1")},
    {"pairs not fenced before the commit", "leaf merge", Bc(3), DropFence("lodgetree.merge.1")},
    // Where words tear, a commit has a second flush and fence.
    {"commit not flushed", "leaf merge", Bc(1), DropFlushes("lodgetree.merge.2"),
     Under::kLinePrefix},
    {"commit not fenced before the leaf is free", "leaf merge", Bc(2, 21),
     DropFence("lodgetree.merge.2"), Under::kLinePrefix},
    // Torn words leave so many images that with some seeds none of this kind is drawn.
    {"watermark of the left leaf", "leaf merge", Bc(25), Ask("lodgetree.merge.low_watermark"),
     Under::kLinePrefix},
    {"the right leaf stays taken", "leaf merge", Bc(11), Ask("lodgetree.merge.leaf_stays")},
    {"what a walk from a free leaf has is taken", "recovery", Bc(18),
     Ask("node.chain_walk.whole_walks")},
    {"watermark ignored", "recovery", Bc(15), Ask("node.log_replay.no_watermark")},
    {"order by log instead of number", "recovery", Bc(15, 16), Ask("node.log_replay.order_by_log")},
    // Torn words leave so many images that too few of this kind are drawn.
    {"part of a group taken", "recovery", Bc(12), Ask("node.log_reader.part_of_group"),
     Under::kLinePrefix},
    {"low fence ignored", "recovery", Bc(19), Ask("lodgetree.recovery.no_low_fence")},
    {"replay in order of keys", "recovery", Bc(16), Ask("node.log_replay.replay_by_key")},
    {"a dropped group is not made unreadable", "recovery", Bc(13), Forget("node.log_replay.1"),
     Under::kBoth, In::kBytes},
    {"newer flushes explain an entry in flight", "recovery", Bc(12),
     Ask("node.log_replay.no_horizon"), Under::kBoth, In::kBytes, By::kBatchInFlight},
    {"what a killed process had not flushed is believed", "recovery", Bc(12),
     Ask("lodgetree.recovery.no_settle"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    {"a leaf is written before it is settled", "settling", Bc(12), Ask("node.settle.no_touch"),
     Under::kLinePrefix, In::kAny, By::kKillThenCut},
    {"free space used before all is settled", "settling", Bc(12, 21),
     Ask("node.settle.space_first"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    {"records given back above the horizon", "horizon", Bc(21), Ask("node.fence_horizon.stays"),
     Under::kBoth, In::kBytes},
    {"horizon not flushed", "horizon", Bc(1), Forget("node.fence_horizon.1"), Under::kBoth,
     In::kBytes},
    {"horizon not fenced", "horizon", Bc(3), DropFence("node.fence_horizon.1"), Under::kBoth,
     In::kBytes},
    {"any record of the right place is taken", "recovery", Bc(12, 23),
     Ask("node.log_replay.any_record"), Under::kBoth, In::kBytes},
    {"an entry without its record ends the log", "recovery", Bc(17),
     Ask("node.log_replay.stops_at_hole"), Under::kBoth, In::kBytes},
    {"checksum of an entry not verified", "recovery", Bc(23),
     Ask("node.log_reader.checksum_ignored")},
    {"fingerprints not rebuilt", "recovery", Bc(26), Ask("lodgetree.recovery.no_fingerprints")},
    {"entries replayed are not counted in their log", "recovery", Bc(26),
     Ask("node.log_replay.not_counted")},
    // Where the log has 52 bits for a number.
    {"numbers go on behind their end", "sequence", Bc(24), Ask("pmem.sequence.no_end"),
     Under::kBoth, In::kAny, By::kHighNumbers},
};

constexpr Canary kScheduleCanaries[] = {
    {"a pair is seen before it is durable", "publication", Bc(9), LateFence("node.log_append.1"),
     Under::kBoth, In::kFixed64},
    {"readers go on over a second commit", "publication", Bc(5, 9),
     Ask("lodgetree.second_commit.readers_go_on")},
    {"space is given back under a reader",
     "epochs",
     Bc(21),
     {Fault::Kind::kIgnoreEpochs, ""},
     Under::kBoth,
     In::kBytes},
    {"a mutex lets everybody in", "locks", Bc(16), {Fault::Kind::kIgnoreMutexes, ""}},
    {"watermark is the flushing pair's own number", "order", Bc(15),
     Ask("lodgetree.flush.own_number")},
    {"numbers are taken before the locks", "order", Bc(16),
     Ask("lodgetree.write.numbers_before_locks")},
    {"order by log instead of number", "order", Bc(16), Ask("node.log_replay.order_by_log")},
    {"part of a group taken", "batches", Bc(12), Ask("node.log_reader.part_of_group")},
    {"newer flushes explain a batch in flight", "batches", Bc(12),
     Ask("node.log_replay.no_horizon"), Under::kBoth, In::kBytes},
    // After it recovery raises the horizon: then nothing else shows that the group was never
    // fenced, and the recovery after a second crash takes it for damage, or for whole.
    {"a dropped group is not made unreadable", kBehindCrash, Bc(13), Forget("node.log_replay.1"),
     Under::kBoth, In::kBytes},
    {"recovery goes on before that is durable", kBehindCrash, Bc(13),
     DropFence("node.log_replay.1"), Under::kBoth, In::kBytes},
};

constexpr DoesNotApply kClassesWithout[] = {
    {8,
     "locks and their versions are in nodes in DRAM (node/version_lock.h); no leaf has a word for "
     "either"},
};

// A leaf: commit and watermark, two next pointers, fingerprints, low fence, slots.
constexpr Unseen kUnseen[] = {
    {"nodes", 80, 512, When::kKilled, How::kInPlace, Effect::kWrong, Standing::kNamed,
     "pairs that lie in their slots"},
    {"logs", sizeof(media::LogHeader), kToTheEnd, When::kKilled, How::kAny, Effect::kWrong,
     Standing::kNamed, "last groups of a log: as if they had never been fenced"},
    {"records", 0, kToTheEnd, When::kKilled, How::kAny, Effect::kWrong, Standing::kNamed,
     "record that only a log knows: as if its group had never been fenced, or as if another record "
     "had its space"},
};

void WriteLayouts(LayoutWriter& writer) {
  using lodgetree::media::Leaf;
  using lodgetree::media::Slot;
  using media::LogEntry;
  using media::LogHeader;
  writer.Struct("Leaf", sizeof(Leaf));
  LODGEKV_FIELD(Leaf, commit);
  LODGEKV_FIELD(Leaf, watermark);
  LODGEKV_FIELD(Leaf, next);
  LODGEKV_FIELD(Leaf, fingerprints);
  LODGEKV_FIELD(Leaf, low);
  LODGEKV_FIELD(Leaf, slots);
  writer.Struct("Slot", sizeof(Slot));
  LODGEKV_FIELD(Slot, key);
  LODGEKV_FIELD(Slot, value);
  writer.Struct("LogHeader", sizeof(LogHeader));
  LODGEKV_FIELD(LogHeader, version);
  LODGEKV_FIELD(LogHeader, entries);
  LODGEKV_FIELD(LogHeader, checksum);
  LODGEKV_FIELD(LogHeader, copy);
  LODGEKV_FIELD(LogHeader, reserved);
  writer.Struct("LogEntry", sizeof(LogEntry));
  LODGEKV_FIELD(LogEntry, key);
  LODGEKV_FIELD(LogEntry, value);
  LODGEKV_FIELD(LogEntry, meta);
  LODGEKV_FIELD(LogEntry, checksums);
  writer.Struct("EngineArea", sizeof(pmem::media::Header::engine_area));
  writer.Words("first_leaf", lodgetree::media::kFirstLeaf);
  writer.Words("log_entries", lodgetree::media::kLogEntries);
  writer.Words("longest_key", lodgetree::media::kLongestKey);
  writer.Words("fenced_below", lodgetree::media::kFencedBelow);
}

}  // namespace

const EngineRows& GetRows() {
  static constexpr EngineRows kRows = {
      .engine = "lodgetree",
      .canaries = kCanaries,
      .schedule_canaries = kScheduleCanaries,
      .classes_without = kClassesWithout,
      .unseen = kUnseen,
      .has_log = true,
      .write_layouts = WriteLayouts,
  };
  return kRows;
}

}  // namespace lodgekv::test::lodgetree_rows
