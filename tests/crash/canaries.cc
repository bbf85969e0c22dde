#include "tests/crash/canaries.h"

namespace lodgekv::test {
namespace {

constexpr Fault DropFence(std::string_view point) { return {Fault::Kind::kDropFence, point}; }
constexpr Fault Forget(std::string_view point) { return {Fault::Kind::kForgetFlushes, point}; }
constexpr Fault DropFlushes(std::string_view point) { return {Fault::Kind::kDropFlushes, point}; }
constexpr Fault Ask(std::string_view name) { return {Fault::Kind::kAsk, name}; }

constexpr Canary kLodgeTree[] = {
    {"entry not flushed", "log append", Forget("lodgetree.log_append.1")},
    {"entry not fenced", "log append", DropFence("lodgetree.log_append.1")},
    {"checksum without the log's version", "log append", Ask("lodgetree.log.any_version")},
    {"header not flushed", "log header", Forget("lodgetree.log_header.1")},
    {"header not fenced", "log header", DropFence("lodgetree.log_header.1")},
    // Three uses of one chunk across two crashes: too rare for the explorer.
    {"old headers stay in a chunk that is given back", "log header", Forget("pmem.release_logs.1"),
     Under::kBoth, In::kAny, By::kReleasedLogs},
    {"old headers not gone before the chunk is", "log header", DropFence("pmem.release_logs.1"),
     Under::kBoth, In::kAny, By::kReleasedLogs},
    {"slots not flushed", "flush", Forget("lodgetree.flush.1")},
    {"slots not fenced before the commit", "flush", DropFence("lodgetree.flush.1")},
    {"commit not flushed", "flush", DropFlushes("lodgetree.flush.2")},
    {"commit not fenced before log counts fall", "flush", DropFence("lodgetree.flush.2")},
    {"no fence between commit and watermark", "flush", DropFence("lodgetree.flush.2"),
     Under::kTornWords},
    {"watermark before the slots' fence", "flush", Ask("lodgetree.flush.watermark_first")},
    {"watermark before the commit", "flush", Ask("lodgetree.flush.watermark_before_commit")},
    {"own number as watermark", "flush", Ask("lodgetree.flush.own_number")},
    {"new leaf not flushed", "leaf split", Ask("lodgetree.split.leaf_not_flushed")},
    {"next pointer after the commit", "leaf split", Ask("lodgetree.split.next_after_commit")},
    {"bitmap and use_n in two stores", "leaf split", Ask("lodgetree.split.two_words")},
    {"pairs not flushed", "second commit", Forget("lodgetree.flush.6")},
    {"pairs not fenced before the commit", "second commit", DropFence("lodgetree.flush.6")},
    {"commit not flushed", "second commit", DropFlushes("lodgetree.flush.4")},
    {"watermark with the first commit", "second commit", Ask("lodgetree.second_commit.watermark"),
     Under::kLinePrefix},
    {"slot used again before it is free", "second commit",
     Ask("lodgetree.second_commit.reuse_at_once")},
    {"pairs not flushed", "leaf merge", Forget("lodgetree.merge.1")},
    {"pairs not fenced before the commit", "leaf merge", DropFence("lodgetree.merge.1")},
    // Where words tear, a commit has a second flush and fence.
    {"commit not flushed", "leaf merge", DropFlushes("lodgetree.merge.2"), Under::kLinePrefix},
    {"commit not fenced before the leaf is free", "leaf merge", DropFence("lodgetree.merge.2"),
     Under::kLinePrefix},
    {"watermark of the left leaf", "leaf merge", Ask("lodgetree.merge.low_watermark")},
    {"watermark ignored", "recovery", Ask("lodgetree.recovery.no_watermark")},
    {"order by log instead of number", "recovery", Ask("lodgetree.recovery.order_by_log")},
    // Torn words leave so many images that too few of this kind are drawn.
    {"part of a group taken", "recovery", Ask("lodgetree.recovery.part_of_group"),
     Under::kLinePrefix},
    {"low fence ignored", "recovery", Ask("lodgetree.recovery.no_low_fence")},
    {"replay in order of keys", "recovery", Ask("lodgetree.recovery.replay_by_key")},
    {"a dropped group is not made unreadable", "recovery", Forget("lodgetree.recovery.1"),
     Under::kBoth, In::kBytes},
    {"newer flushes explain an entry in flight", "recovery", Ask("lodgetree.recovery.no_horizon"),
     Under::kBoth, In::kBytes, By::kBatchInFlight},
    {"records given back above the horizon", "horizon", Ask("lodgetree.horizon.stays"),
     Under::kBoth, In::kBytes},
    {"horizon not flushed", "horizon", Forget("lodgetree.horizon.1"), Under::kBoth, In::kBytes},
    {"horizon not fenced", "horizon", DropFence("lodgetree.horizon.1"), Under::kBoth, In::kBytes},
    {"any record of the right place is taken", "recovery", Ask("lodgetree.recovery.any_record"),
     Under::kBoth, In::kBytes},
};

}  // namespace

std::span<const Canary> CanariesOf(std::string_view engine) {
  if (engine == "lodgetree") return kLodgeTree;
  return {};
}

}  // namespace lodgekv::test
