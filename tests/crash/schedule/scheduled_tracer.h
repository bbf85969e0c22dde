// A crash tracer that makes every access of the engine to the medium a switch point.
#pragma once

#include <functional>
#include <set>
#include <string_view>

#include "tests/crash/lab/tracer.h"
#include "tests/crash/schedule/scheduler.h"

namespace lodgekv::test {

class ScheduledTracer final : public pmem::Tracer {
 public:
  // Makes the mistake `fault` if it is one of CrashTracer, or kLateFence. `host` decides for the
  // threads that the engine starts; without one it starts none.
  ScheduledTracer(std::span<const std::byte> memory, Fault fault, pmem::ThreadHost* host)
      : fault_(fault), host_(host), inner_(memory, fault) {}

  // Called before a fence takes effect; see CrashTracer.
  std::function<void()> before_fence;

  CrashTracer& inner() { return inner_; }
  bool fault_happened() const { return fault_happened_ || inner_.fault_happened(); }

  // The calling thread's call has returned: an outstanding late fence takes effect.
  void Returned();

  void OnStore(const void* dst, size_t bytes, bool stream) override;
  void OnFlush(const void* line) override;
  void OnFence() override;
  void OnCrashPoint(std::string_view name) override;
  bool OnCanary(std::string_view name) override { return inner_.OnCanary(name); }
  pmem::ThreadHost* thread_host() override { return host_; }

 private:
  const Fault fault_;
  pmem::ThreadHost* const host_;
  CrashTracer inner_;
  std::set<unsigned> will_owe_;  // threads after the crash point and before their fence
  std::set<unsigned> owe_;
  bool fault_happened_ = false;
};

}  // namespace lodgekv::test
