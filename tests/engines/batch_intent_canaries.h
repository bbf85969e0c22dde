// The canaries of an atomic batch's intent (index/node/batch_intent.h), which all engines without
// a log have in common.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "tests/crash/canaries/bug_classes.h"
#include "tests/crash/canaries/canaries.h"
#include "tests/engines/faults.h"

namespace lodgekv::test {

inline constexpr Canary kBatchIntentCanaries[] = {
    {"records not flushed", "batch", Bc(1), Forget("node.batch_intent.1")},
    {"body not flushed", "batch", Bc(1), Ask("node.batch_intent.body_not_flushed")},
    {"body not fenced before its root", "batch", Bc(3), DropFence("node.batch_intent.1")},
    {"root not flushed", "batch", Bc(1), Forget("node.batch_intent.2")},
    {"root not fenced before the operations", "batch", Bc(3), DropFence("node.batch_intent.2")},
    {"end not flushed", "batch", Bc(1, 15), Forget("node.batch_intent.3")},
    {"end not fenced before later writes", "batch", Bc(2, 15), DropFence("node.batch_intent.3")},
    {"batches under way forgotten", "recovery", Bc(12), Ask("node.intent_recovery.forgotten")},
    {"batch retired before it is done", "recovery", Bc(13, 22),
     Ask("node.intent_recovery.retired_first")},
};

// An engine's own canaries, and these.
template <size_t kOwn>
constexpr auto WithBatchIntents(const Canary (&own)[kOwn]) {
  std::array<Canary, kOwn + std::size(kBatchIntentCanaries)> all{};
  std::copy(std::begin(kBatchIntentCanaries), std::end(kBatchIntentCanaries),
            std::copy(std::begin(own), std::end(own), all.begin()));
  return all;
}

}  // namespace lodgekv::test
