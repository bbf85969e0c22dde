#include "tests/crash/schedule_canaries.h"

namespace lodgekv::test {
namespace {

constexpr Fault LateFence(std::string_view point) { return {Fault::Kind::kLateFence, point}; }
constexpr Fault Forget(std::string_view point) { return {Fault::Kind::kForgetFlushes, point}; }
constexpr Fault DropFence(std::string_view point) { return {Fault::Kind::kDropFence, point}; }
constexpr Fault Ask(std::string_view name) { return {Fault::Kind::kAsk, name}; }

constexpr Canary kLodgeTree[] = {
    {"a pair is seen before it is durable", "publication", Bc(9),
     LateFence("lodgetree.log_append.1"), Under::kBoth, In::kFixed64},
    {"a flush is published before it is durable", "publication", Bc(9),
     LateFence("lodgetree.flush.2")},
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
    {"order by log instead of number", "order", Bc(16), Ask("lodgetree.recovery.order_by_log")},
    {"part of a group taken", "batches", Bc(12), Ask("lodgetree.recovery.part_of_group")},
    {"newer flushes explain a batch in flight", "batches", Bc(12),
     Ask("lodgetree.recovery.no_horizon"), Under::kBoth, In::kBytes},
    // Behind it recovery raises the horizon: then nothing else tells that the group was never
    // fenced, and whoever opens what a second crash leaves takes it for damage, or for whole.
    {"a dropped group is not made unreadable", kBehindCrash, Bc(13), Forget("lodgetree.recovery.1"),
     Under::kBoth, In::kBytes},
    {"recovery goes on before that is durable", kBehindCrash, Bc(13),
     DropFence("lodgetree.recovery.1"), Under::kBoth, In::kBytes},
};

}  // namespace

std::span<const Canary> ScheduleCanariesOf(std::string_view engine) {
  if (engine == "lodgetree") return kLodgeTree;
  return {};
}

}  // namespace lodgekv::test
