#include "tests/crash/schedule/scheduled_tracer.h"

#include "index/node/epoch.h"
#include "index/pmem/worker_slot.h"

namespace lodgekv::test {

void ScheduledTracer::OnStore(const void* dst, size_t bytes, bool stream) {
  inner_.OnStore(dst, bytes, stream);
  Scheduler::Point(PointKind::kStore);
}

void ScheduledTracer::OnFlush(const void* line) {
  inner_.OnFlush(line);
  Scheduler::Point(PointKind::kFlush);
}

void ScheduledTracer::OnFence() {
  Scheduler::Point(PointKind::kFence);
  if (before_fence && !EpochGuard::IsHeld()) before_fence();
  if (will_owe_.erase(pmem::CurrentWorkerSlot()) > 0) {
    owe_.insert(pmem::CurrentWorkerSlot());
    fault_happened_ = true;
  } else {
    inner_.OnFence();
  }
  Scheduler::Point(PointKind::kFence);
}

void ScheduledTracer::OnCrashPoint(std::string_view name) {
  inner_.OnCrashPoint(name);
  if (fault_.kind == Fault::Kind::kLateFence && name == fault_.where) {
    will_owe_.insert(pmem::CurrentWorkerSlot());
  }
  Scheduler::Point(PointKind::kCrashPoint);
}

void ScheduledTracer::Returned() {
  will_owe_.erase(pmem::CurrentWorkerSlot());
  if (owe_.erase(pmem::CurrentWorkerSlot()) > 0) inner_.OnFence();
}

}  // namespace lodgekv::test
