// What the engine does to the medium, as the crash tracer sees it, is where threads are switched.
#pragma once

#include <functional>
#include <set>
#include <string_view>

#include "tests/crash/lab/tracer.h"
#include "tests/crash/schedule/scheduler.h"

namespace lodgekv::test {

class ScheduledTracer final : public pmem::Tracer {
 public:
  // Makes the mistakes that `fault` names where they are those of a CrashTracer, and kLateFence.
  ScheduledTracer(std::span<const std::byte> memory, Fault fault)
      : fault_(fault), inner_(memory, fault) {}

  // Called before a fence takes effect.
  std::function<void()> before_fence;

  CrashTracer& inner() { return inner_; }
  bool fault_happened() const { return fault_happened_ || inner_.fault_happened(); }

  // The calling thread's call has returned: a fence that is owed takes effect.
  void Returned();

  void OnStore(const void* dst, size_t bytes, bool stream) override;
  void OnFlush(const void* line) override;
  void OnFence() override;
  void OnCrashPoint(std::string_view name) override;
  bool OnCanary(std::string_view name) override { return inner_.OnCanary(name); }

 private:
  const Fault fault_;
  CrashTracer inner_;
  std::set<unsigned> will_owe_;  // threads behind the crash point, before their fence
  std::set<unsigned> owe_;
  bool fault_happened_ = false;
};

}  // namespace lodgekv::test
