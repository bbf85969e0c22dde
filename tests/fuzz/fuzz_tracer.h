// A tracer that enables one canary when the bug is planted.
#pragma once

#include "index/pmem/internal/tracer.h"
#include "tests/fuzz/fuzz_target.h"

namespace lodgekv::fuzz {

class CanaryTracer final : public pmem::Tracer {
 public:
  explicit CanaryTracer(std::string_view canary) : canary_(canary) {}

  void OnStore(const void*, size_t, bool) override {}
  void OnFlush(const void*) override {}
  void OnFence() override {}
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view name) override { return BugIsPlanted() && name == canary_; }

 private:
  const std::string_view canary_;
};

}  // namespace lodgekv::fuzz
