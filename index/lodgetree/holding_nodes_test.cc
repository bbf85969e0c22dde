#include "index/lodgetree/holding_nodes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace lodgekv::lodgetree {
namespace {

struct FakeNode {
  std::mutex lock;
  uint8_t held = 0;
  std::atomic<FakeNode*> next{nullptr};
  int adds = 0;  // under the lock, like takes
  int takes = 0;
};
using Queue = HoldingNodes<FakeNode, &FakeNode::next, 1>;

TEST(HoldingNodesTest, TheFirstAddedComesFirst) {
  Queue queue;
  FakeNode nodes[4];
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Take(), nullptr);
  for (FakeNode& node : nodes) queue.Add(&node);
  queue.Add(&nodes[0]);
  for (FakeNode& node : nodes) {
    EXPECT_FALSE(queue.empty());
    ASSERT_EQ(queue.Take(), &node);
    Queue::Taken(&node);
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Take(), nullptr);
}

TEST(HoldingNodesTest, ATakenNodeMayBeAddedAgainBehindTheOthers) {
  Queue queue;
  FakeNode first;
  FakeNode second;
  queue.Add(&first);
  queue.Add(&second);
  ASSERT_EQ(queue.Take(), &first);
  queue.Add(&first);  // not yet marked as taken
  Queue::Taken(&first);
  queue.Add(&first);
  EXPECT_EQ(queue.Take(), &second);
  EXPECT_EQ(queue.Take(), &first);
  EXPECT_TRUE(queue.empty());
}

// Each adder adds its own node as soon as it was taken: so the queue is emptied constantly, which
// is where links are made and cut.
TEST(HoldingNodesTest, NothingIsLostBesideAdders) {
  constexpr int kRounds = 50000;
  constexpr int kMostWaits = 1 << 20;  // a lost node is never taken
  Queue queue;
  std::array<FakeNode, 3> nodes;
  std::atomic<int> running{static_cast<int>(nodes.size())};
  std::vector<std::thread> adders;
  for (FakeNode& node : nodes) {
    adders.emplace_back([&] {
      for (int waits = 0; node.adds < kRounds && waits < kMostWaits; ++waits) {
        std::unique_lock lock(node.lock);
        if (node.held != 0) {
          lock.unlock();
          std::this_thread::yield();
          continue;
        }
        waits = 0;
        ++node.adds;
        queue.Add(&node);
      }
      running.fetch_sub(1);
    });
  }
  for (bool last = false; !last;) {
    last = running.load() == 0;
    while (FakeNode* node = queue.Take()) {
      const std::lock_guard lock(node->lock);
      ++node->takes;
      EXPECT_NE(node->held, 0);
      Queue::Taken(node);
    }
  }
  for (std::thread& adder : adders) adder.join();
  EXPECT_TRUE(queue.empty());
  for (const FakeNode& node : nodes) EXPECT_EQ(node.takes, node.adds);
  for (const FakeNode& node : nodes) EXPECT_EQ(node.adds, kRounds);
}

}  // namespace
}  // namespace lodgekv::lodgetree
