// Strategies that choose the next thread: random priorities (A Randomized Scheduler with
// Probabilistic Guarantees of Finding Bugs, ASPLOS 2010), all schedules up to a number of
// preemptions (Iterative Context Bounding, PLDI 2007), or one thread after the other.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/crash/schedule/scheduler.h"
#include "tests/support/random.h"

namespace lodgekv::test {

// Each thread has a priority; the highest runnable one continues. At `depth` of `length` steps,
// drawn in advance, the running thread gets a priority below all others. A fault that needs `depth`
// changes of thread at certain places is found with a probability of at least 1 / (threads * length
// ^ depth).
class RandomPriorities final : public Strategy {
 public:
  RandomPriorities(Random random, unsigned depth, uint64_t length);
  void Begin(unsigned threads) override;
  unsigned Choose(PointKind kind, unsigned current, uint32_t runnable) override;

 private:
  Random random_;
  std::vector<uint64_t> changes_;  // steps, ascending
  size_t next_change_ = 0;
  uint64_t step_ = 0;
  std::array<uint32_t, Scheduler::kMaxThreads> priority_{};
};

// Each thread runs until it ends or waits; the lowest number first, or the highest.
class OneAfterTheOther final : public Strategy {
 public:
  explicit OneAfterTheOther(bool last_first = false) : last_first_(last_first) {}
  void Begin(unsigned) override { current_began_ = false; }
  unsigned Choose(PointKind kind, unsigned current, uint32_t runnable) override;

 private:
  const bool last_first_;
  bool current_began_ = false;
};

// Every schedule with at most `preemptions` switches away from a runnable thread, those with fewer
// first: use it for execution after execution until Next returns false. The round for each number
// repeats some schedules of earlier rounds.
class BoundedExhaustive final : public Strategy {
 public:
  explicit BoundedExhaustive(unsigned preemptions) : most_preemptions_(preemptions) {}
  void Begin(unsigned) override;
  unsigned Choose(PointKind kind, unsigned current, uint32_t runnable) override;
  // Prepares the next schedule; false: all have been run.
  bool Next();
  // Whether an earlier round had the last execution too.
  bool repeats() const { return preemptions_ < bound_; }
  // The choice at which this execution first differs from the previous one.
  uint64_t first_new_choice() const { return first_new_choice_; }
  uint64_t choices_made() const { return step_; }

 private:
  struct Choice {
    uint64_t step;
    uint32_t others;  // those not yet tried
    unsigned taken;
  };

  const unsigned most_preemptions_;
  unsigned bound_ = 0;  // of this round
  std::vector<Choice> choices_;
  size_t at_ = 0;
  unsigned preemptions_ = 0;
  uint64_t step_ = 0;
  uint64_t first_new_choice_ = 0;
};

}  // namespace lodgekv::test
