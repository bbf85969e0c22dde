// A hook of Medium for tests: it sees every store, flush and fence in program order, and may inject
// faults. While one is attached no cache line is really flushed.
#pragma once

#include <cstddef>
#include <string_view>

namespace lodgekv::pmem {

class Tracer {
 public:
  virtual ~Tracer() = default;
  // Called after [dst, dst + bytes) got its new content. Stores larger than a word count as
  // ascending words. `stream`: non-temporal; its words survive independently, and the next Fence of
  // this thread makes them durable without a Flush.
  virtual void OnStore(const void* dst, size_t bytes, bool stream) = 0;
  // `line` is 64-byte aligned.
  virtual void OnFlush(const void* line) = 0;
  // Called before the fence takes effect.
  virtual void OnFence() = 0;
  // A named step of a protocol, see crash_point.h.
  virtual void OnCrashPoint(std::string_view name) = 0;
  // Returns true if the named mistake should be made (a canary; see tests/crash).
  virtual bool OnCanary(std::string_view name) = 0;
};

}  // namespace lodgekv::pmem
