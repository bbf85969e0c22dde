// The open loop of a lane.
#pragma once

#include "client/lodgectl/bench/free_slots.h"
#include "client/lodgectl/bench/lane.h"
#include "client/lodgectl/bench/pace.h"
#include "client/workload/arrival_schedule.h"

namespace lodgekv::lodgectl {

// Of all calls of a rate every n-th, so that n lanes make them together.
class LaneSchedule {
 public:
  LaneSchedule(const BenchPlan& plan, const BenchShare& share, const BenchSpan& span)
      : span_(span), schedule_(span.begin_ns, span.end_ns, plan.rate), lanes_(plan.threads) {
    Skip(share.first_call);
  }

  // The rest of the run is not due if it was cut short.
  bool IsOver() const { return schedule_.IsOver() || schedule_.next_ns() >= span_.end_ns; }
  uint64_t next_ns() const { return schedule_.next_ns(); }
  void Take() { Skip(lanes_); }

 private:
  void Skip(uint64_t calls) {
    for (uint64_t i = 0; i < calls; ++i) schedule_.Take();
  }

  const BenchSpan& span_;
  workload::ArrivalSchedule schedule_;
  const uint64_t lanes_;
};

// Begins each call when it is due and a slot is free, until the run is over: begin(slot, due_ns).
template <typename Slot, typename Begin>
void BeginDueCalls(LaneSchedule& schedule, const BenchSpan& span, FreeSlots<Slot>& slots,
                   Begin begin) {
  for (Slot slot{}; !schedule.IsOver(); schedule.Take()) {
    if (!SleepUntil(schedule.next_ns(), span) || !slots.Take(span, slot)) return;
    begin(std::move(slot), schedule.next_ns());
  }
}

// Counts those that were due and not begun.
template <typename Chooser>
void CountNotSent(LaneSchedule& schedule, const BenchSpan& span, Chooser& chooser,
                  BenchTally& tally) {
  for (; !schedule.IsOver(); schedule.Take()) {
    tally.NotSent(chooser.NextOperation(), span.end_ns - schedule.next_ns());
  }
}

}  // namespace lodgekv::lodgectl
