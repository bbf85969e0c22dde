#include "tests/crash/schedule/strategies.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace lodgekv::test {
namespace {

unsigned Lowest(uint32_t runnable) { return static_cast<unsigned>(std::countr_zero(runnable)); }

}  // namespace

RandomPriorities::RandomPriorities(Random random, unsigned depth, uint64_t length)
    : random_(std::move(random)), changes_(depth) {
  for (uint64_t& step : changes_) step = random_.Between(1, std::max<uint64_t>(length, 1));
  std::sort(changes_.begin(), changes_.end());
}

void RandomPriorities::Begin(unsigned threads) {
  const auto lowest = static_cast<uint32_t>(changes_.size() + 1);
  for (unsigned i = 0; i < threads; ++i) {
    priority_[i] = lowest + i;
    std::swap(priority_[i], priority_[random_.Below(i + 1)]);
  }
}

unsigned RandomPriorities::Choose(PointKind, unsigned current, uint32_t runnable) {
  ++step_;
  while (next_change_ < changes_.size() && step_ >= changes_[next_change_]) {
    priority_[current] = static_cast<uint32_t>(changes_.size() - next_change_++);
  }
  unsigned best = Lowest(runnable);
  for (uint32_t left = runnable; left != 0; left &= left - 1) {
    if (priority_[Lowest(left)] > priority_[best]) best = Lowest(left);
  }
  return best;
}

unsigned OneAfterTheOther::Choose(PointKind, unsigned current, uint32_t runnable) {
  if ((runnable >> current & 1) != 0 && current_began_) return current;
  current_began_ = true;
  return last_first_ ? 31 - static_cast<unsigned>(std::countl_zero(runnable)) : Lowest(runnable);
}

void BoundedExhaustive::Begin(unsigned) {
  at_ = 0;
  preemptions_ = 0;
  step_ = 0;
}

unsigned BoundedExhaustive::Choose(PointKind, unsigned current, uint32_t runnable) {
  const bool goes_on = step_++ > 0 && (runnable >> current & 1) != 0;
  const unsigned first = goes_on ? current : Lowest(runnable);
  const bool may_change = !goes_on || preemptions_ < bound_;
  const uint32_t others = may_change ? runnable & ~(uint32_t{1} << first) : 0;
  if (others == 0) return first;
  if (at_ == choices_.size()) choices_.push_back({step_, others, first});
  const unsigned taken = choices_[at_++].taken;
  if (goes_on && taken != current) ++preemptions_;
  return taken;
}

bool BoundedExhaustive::Next() {
  while (!choices_.empty() && choices_.back().others == 0) choices_.pop_back();
  first_new_choice_ = 0;
  if (choices_.empty()) return ++bound_ <= most_preemptions_;
  Choice& choice = choices_.back();
  choice.taken = Lowest(choice.others);
  choice.others &= choice.others - 1;
  first_new_choice_ = choice.step;
  return true;
}

}  // namespace lodgekv::test
