#include "tests/crash/schedule_canaries.h"

namespace lodgekv::test {
namespace {

constexpr Fault LateFence(std::string_view point) { return {Fault::Kind::kLateFence, point}; }
constexpr Fault Ask(std::string_view name) { return {Fault::Kind::kAsk, name}; }

constexpr Canary kLodgeTree[] = {
    {"a pair is seen before it is durable", "publication", LateFence("lodgetree.log_append.1"),
     Under::kBoth, In::kFixed64},
    {"a flush is published before it is durable", "publication", LateFence("lodgetree.flush.2")},
    {"readers go on over a second commit", "publication",
     Ask("lodgetree.second_commit.readers_go_on")},
    {"space is given back under a reader",
     "epochs",
     {Fault::Kind::kIgnoreEpochs, ""},
     Under::kBoth,
     In::kBytes},
    {"a mutex lets everybody in", "locks", {Fault::Kind::kIgnoreMutexes, ""}},
    {"watermark is the flushing pair's own number", "order", Ask("lodgetree.flush.own_number")},
    {"numbers are taken before the locks", "order", Ask("lodgetree.write.numbers_before_locks")},
    {"order by log instead of number", "order", Ask("lodgetree.recovery.order_by_log")},
    {"part of a group taken", "batches", Ask("lodgetree.recovery.part_of_group")},
    {"newer flushes explain a batch in flight", "batches", Ask("lodgetree.recovery.no_horizon"),
     Under::kBoth, In::kBytes},
};

}  // namespace

std::span<const Canary> ScheduleCanariesOf(std::string_view engine) {
  if (engine == "lodgetree") return kLodgeTree;
  return {};
}

}  // namespace lodgekv::test
