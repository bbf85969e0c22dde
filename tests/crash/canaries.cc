#include "tests/crash/canaries.h"

namespace lodgekv::test {
namespace {

constexpr Fault DropFence(std::string_view point) { return {Fault::Kind::kDropFence, point}; }
constexpr Fault Forget(std::string_view point) { return {Fault::Kind::kForgetFlushes, point}; }
constexpr Fault DropFlushes(std::string_view point) { return {Fault::Kind::kDropFlushes, point}; }
constexpr Fault Misdirect(std::string_view point) { return {Fault::Kind::kFlushElsewhere, point}; }
constexpr Fault Ask(std::string_view name) { return {Fault::Kind::kAsk, name}; }

constexpr Canary kLodgeTree[] = {
    {"first leaf not flushed", "creation", Bc(1, 7), Ask("lodgetree.create.leaf_not_flushed")},
    {"entry not flushed", "log append", Bc(1), Forget("lodgetree.log_append.1")},
    {"entry not fenced", "log append", Bc(2), DropFence("lodgetree.log_append.1")},
    {"checksum without the log's version", "log append", Bc(14, 23),
     Ask("lodgetree.log.any_version")},
    {"header not flushed", "log header", Bc(1), Forget("lodgetree.log_header.1")},
    {"header not fenced", "log header", Bc(3), DropFence("lodgetree.log_header.1")},
    // Three uses of one chunk across two crashes: too rare for the explorer.
    {"old headers stay in a chunk that is given back", "log header", Bc(14, 18),
     Forget("pmem.release_logs.1"), Under::kBoth, In::kAny, By::kReleasedLogs},
    {"old headers not gone before the chunk is", "log header", Bc(3, 18),
     DropFence("pmem.release_logs.1"), Under::kBoth, In::kAny, By::kReleasedLogs},
    {"slots not flushed", "flush", Bc(1), Forget("lodgetree.flush.1")},
    {"slots not fenced before the commit", "flush", Bc(3), DropFence("lodgetree.flush.1")},
    {"commit not flushed", "flush", Bc(1), DropFlushes("lodgetree.flush.2")},
    {"the line behind the commit's is flushed", "flush", Bc(20), Misdirect("lodgetree.flush.2")},
    {"commit not fenced before log counts fall", "flush", Bc(2), DropFence("lodgetree.flush.2")},
    {"no fence between commit and watermark", "flush", Bc(3), DropFence("lodgetree.flush.2"),
     Under::kTornWords},
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
    {"new leaf not flushed", "leaf split", Bc(1), Ask("lodgetree.split.leaf_not_flushed")},
    {"next pointer after the commit", "leaf split", Bc(3),
     Ask("lodgetree.split.next_after_commit")},
    {"bitmap and use_n in two stores", "leaf split", Bc(4, 6), Ask("lodgetree.split.two_words")},
    {"commit word torn", "leaf split", Bc(10), Ask("lodgetree.split.torn_commit")},
    {"pairs not flushed", "second commit", Bc(1), Forget("lodgetree.flush.6")},
    {"pairs not fenced before the commit", "second commit", Bc(3), DropFence("lodgetree.flush.6")},
    {"commit not flushed", "second commit", Bc(1), DropFlushes("lodgetree.flush.4")},
    // The leaf is half rebuilt then.
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
    {"watermark ignored", "recovery", Bc(15), Ask("lodgetree.recovery.no_watermark")},
    {"order by log instead of number", "recovery", Bc(15, 16),
     Ask("lodgetree.recovery.order_by_log")},
    // Torn words leave so many images that too few of this kind are drawn.
    {"part of a group taken", "recovery", Bc(12), Ask("lodgetree.recovery.part_of_group"),
     Under::kLinePrefix},
    {"low fence ignored", "recovery", Bc(19), Ask("lodgetree.recovery.no_low_fence")},
    {"replay in order of keys", "recovery", Bc(16), Ask("lodgetree.recovery.replay_by_key")},
    {"a dropped group is not made unreadable", "recovery", Bc(13), Forget("lodgetree.recovery.1"),
     Under::kBoth, In::kBytes},
    {"newer flushes explain an entry in flight", "recovery", Bc(12),
     Ask("lodgetree.recovery.no_horizon"), Under::kBoth, In::kBytes, By::kBatchInFlight},
    {"what a killed process had not flushed is believed", "recovery", Bc(12),
     Ask("lodgetree.recovery.no_settle"), Under::kLinePrefix, In::kAny, By::kKillThenCut},
    {"records given back above the horizon", "horizon", Bc(21), Ask("lodgetree.horizon.stays"),
     Under::kBoth, In::kBytes},
    {"horizon not flushed", "horizon", Bc(1), Forget("lodgetree.horizon.1"), Under::kBoth,
     In::kBytes},
    {"horizon not fenced", "horizon", Bc(3), DropFence("lodgetree.horizon.1"), Under::kBoth,
     In::kBytes},
    {"any record of the right place is taken", "recovery", Bc(12, 23),
     Ask("lodgetree.recovery.any_record"), Under::kBoth, In::kBytes},
    {"an entry without its record ends the log", "recovery", Bc(17),
     Ask("lodgetree.recovery.stops_at_hole"), Under::kBoth, In::kBytes},
    {"checksum of an entry not verified", "recovery", Bc(23),
     Ask("lodgetree.log.checksum_ignored")},
    {"fingerprints not rebuilt", "recovery", Bc(26), Ask("lodgetree.recovery.no_fingerprints")},
    {"entries replayed are not counted in their log", "recovery", Bc(26),
     Ask("lodgetree.recovery.not_counted")},
};

constexpr Canary PoolRow(std::string_view name, std::string_view group, Bugs bugs, Fault fault) {
  return {name, group, bugs, fault, Under::kBoth, In::kAny, By::kPool};
}

constexpr Canary kPool[] = {
    PoolRow("identity before the rest", "pool creation", Bc(7), Ask("pmem.create.identity_first")),
    PoolRow("slot not flushed", "pool state", Bc(1), Forget("pmem.state.1")),
    PoolRow("slot not fenced before the word", "pool state", Bc(3), DropFence("pmem.state.1")),
    PoolRow("written over the slot that counts", "pool state", Bc(4, 7),
            Ask("pmem.state.in_place")),
    PoolRow("word not flushed", "pool state", Bc(1), Forget("pmem.state.2")),
    PoolRow("word not fenced", "pool state", Bc(2), DropFence("pmem.state.2")),
    PoolRow("class not flushed", "chunk table", Bc(1), Forget("pmem.chunk.1")),
    PoolRow("class not fenced", "chunk table", Bc(2), DropFence("pmem.chunk.1")),
    PoolRow("checksums of chunks not flushed", "pool seal", Bc(1), Forget("pmem.seal.1")),
    PoolRow("seal stays while the state changes", "pool seal", Bc(3),
            Ask("pmem.state.stays_sealed")),
    PoolRow("numbers handed out again after a crash", "sequence", Bc(24),
            Ask("pmem.sequence.not_durable")),
    {"numbers go on behind their end", "sequence", Bc(24), Ask("pmem.sequence.no_end"),
     Under::kBoth, In::kAny, By::kHighNumbers},
};

}  // namespace

std::span<const Canary> CanariesOf(std::string_view engine) {
  if (engine == "lodgetree") return kLodgeTree;
  return {};
}

std::span<const Canary> PoolCanaries() { return kPool; }

}  // namespace lodgekv::test
