// The sweep over the whole tree after the pool was opened: it touches every anchor, root and leaf
// (first_touch.h), marks what is in use, so that the rest can be allocated again
// (pmem/unit_arena.h), and counts. Reads and writes go on meanwhile.
//
// It goes along the anchors, then along the leaves from left to right, then through the top layer.
// What is unlinked before it comes there is held, and so are pairs that move to the left; what
// moves to the right is met later, or was met before.
//
// Its calls come one at a time (node/rest_of_recovery.h), perhaps inside an EpochGuard and under
// locks; found_dead and TakeDead are thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "index/node/rest_of_recovery.h"
#include "index/pmem/pool.h"

namespace lodgekv::tlbtree {

template <class C>
struct TreeState;
template <class C>
struct LeafPlace;

template <class C>
class Sweep final : public RecoverySweep {
 public:
  explicit Sweep(TreeState<C>& tree) : tree_(tree) {}

  // From here on it is unfinished. Recovery.
  void Begin();

  bool unfinished() const override;
  bool SettleSome(size_t count) override;
  void End() override;
  Progress progress() const override;
  absl::Status status() const override { return status_; }
  std::string_view phase() const override { return "sweep"; }
  void AddTo(RecoveryReport* report) const override;

  // Dead anchors that a crash left in the chain were found: each text leads to the live one before
  // them, once.
  bool found_dead() const { return found_dead_.load(std::memory_order_relaxed); }
  std::vector<std::string> TakeDead();

 private:
  enum class Phase : uint8_t { kAnchors, kLeaves, kTop, kChunks, kDone };
  bool Step();
  bool StepAnchor();
  bool StepLeaf();
  bool VisitLeaf(const LeafPlace<C>& place);
  bool MarkPair(pmem::Offset leaf, uint64_t value_word);
  bool MarkLow(pmem::Offset where, pmem::Offset record);
  bool StepTop();
  bool StepChunks();
  bool Damaged(std::string_view what, pmem::Offset offset);

  TreeState<C>& tree_;
  Phase phase_ = Phase::kDone;
  absl::Status status_;
  pmem::Offset anchor_ = 0;  // the next one
  std::string live_low_;     // of the last live one
  std::string from_;         // the next leaf covers it
  std::atomic<uint64_t> leaves_{0};
  uint64_t total_ = 0;  // units that may be leaves
  uint64_t keys_ = 0;
  std::mutex mutex_;
  std::vector<std::string> dead_;  // under the mutex
  std::atomic<bool> found_dead_{false};
};

}  // namespace lodgekv::tlbtree
