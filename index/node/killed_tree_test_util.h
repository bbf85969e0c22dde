// For tests of what recovery leaves to a first touch and to the background
// (node/rest_of_recovery.h): a tree that is killed and recovered.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "index/node/engine_test_util.h"
#include "index/pmem/testing/silent_tracer.h"

namespace lodgekv {

// Tree: a TestEngine.
template <class Tree>
class KilledTreeTest : public ::testing::Test {
 protected:
  // Nothing is done in the background: only what is touched is settled.
  void KillAndRecoverInPlace() {
    tree_.arena().options().tracer = &tracer_;
    tree_.KillAndRecover();
    tree_.arena().options().tracer = nullptr;
    ASSERT_FALSE(State().finished);
  }
  RecoveryState State() { return tree_.engine().GetRecoveryState(); }
  uint64_t LinesOf(auto call) { return tree_.EffectOf(call).cost.lines_flushed; }

  void ExpectThatTheBackgroundEndsIt() {
    tree_.KillAndRecover();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!State().finished && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(State().finished);
    EXPECT_EQ(State().error, absl::OkStatus());
    ASSERT_TRUE(State().report.has_value());
    EXPECT_FALSE(tree_.pool().finding_space());
    tree_.ExpectSound();
  }
  void ExpectThatCloseEndsIt() {
    KillAndRecoverInPlace();
    EXPECT_EQ(tree_.engine().Close(), absl::OkStatus());
    EXPECT_TRUE(State().finished);
    EXPECT_FALSE(tree_.pool().finding_space());
  }
  // A few leaves are not worth a thread.
  static void ExpectNoRestOfASmallTree() {
    Tree tree(KeyFormat::kFixed64);
    for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
    tree.KillAndRecover();
    EXPECT_TRUE(tree.engine().GetRecoveryState().finished);
    EXPECT_FALSE(tree.engine().GetRecoveryState().report.has_value());
    EXPECT_FALSE(tree.pool().finding_space());
  }

  pmem::SilentTracer tracer_;
  Tree tree_{KeyFormat::kFixed64};
};

}  // namespace lodgekv
