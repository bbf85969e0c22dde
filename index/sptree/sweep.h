// What recovery leaves to the background (node/rest_of_recovery.h). Where it has looked through all
// leaves, they are settled (node/settle_at_touch.h). Where it has touched none (first_touch.h), the
// sweep opens the gaps from left to right, so that everything in use is marked; then the rest of a
// pool that was closed cleanly is verified. Reads and writes go on meanwhile.
//
// Its calls come one at a time, perhaps inside an EpochGuard and under locks; progress and Begin's
// effect are seen by all threads.
#pragma once

#include <atomic>
#include <string>

#include "index/node/rest_of_recovery.h"
#include "index/node/settle_at_touch.h"

namespace lodgekv::sptree {

template <class C>
struct TreeState;

template <class C>
class Sweep final : public RecoverySweep {
 public:
  explicit Sweep(TreeState<C>& tree) : tree_(tree) {}

  // From here on it is unfinished. FirstTouch has begun.
  void Begin();

  bool unfinished() const override;
  bool SettleSome(size_t count) override;
  void End() override;
  Progress progress() const override;
  absl::Status status() const override;
  std::string_view phase() const override;
  void AddTo(RecoveryReport* report) const override;

 private:
  enum class Phase : uint8_t { kNone, kLeaves, kChunks, kDone };
  bool Step();
  bool StepLeaves();
  bool StepChunks();

  TreeState<C>& tree_;
  std::atomic<bool> active_{false};
  Phase phase_ = Phase::kNone;  // kNone: the leaves are settled only
  std::string from_;            // the next leaf, or gap, has it
  absl::Status status_;
};

}  // namespace lodgekv::sptree
