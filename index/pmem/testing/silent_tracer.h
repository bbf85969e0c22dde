// For tests: a tracer that notes nothing. Under it an engine starts no thread and works in place.
#pragma once

#include <cstddef>
#include <string_view>

#include "index/pmem/medium.h"

namespace lodgekv::pmem {

class SilentTracer final : public Tracer {
 public:
  void OnStore(const void*, size_t, bool) override {}
  void OnFlush(const void*) override {}
  void OnFence() override {}
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view) override { return false; }
};

}  // namespace lodgekv::pmem
