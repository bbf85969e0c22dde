// A listener behind the persist seam, for tests: it sees every store, flush and fence in program
// order, and may switch a fault on. While one is attached no cache line is really flushed.
#pragma once

#include <cstddef>
#include <string_view>

namespace lodgekv::pmem {

class Tracer {
 public:
  virtual ~Tracer() = default;
  // After [dst, dst + bytes) got its new content. Stores larger than a word count as ascending
  // words. `stream`: non-temporal; its words survive independently, and the next Fence of this
  // thread makes them durable without a Flush.
  virtual void OnStore(const void* dst, size_t bytes, bool stream) = 0;
  // `line` is 64-byte aligned.
  virtual void OnFlush(const void* line) = 0;
  // Before the fence takes effect.
  virtual void OnFence() = 0;
  // A named step of a protocol, see crash_point.h.
  virtual void OnCrashPoint(std::string_view name) = 0;
  // True: the named mistake is to be made (a canary; see tests/crash).
  virtual bool OnCanary(std::string_view name) = 0;
};

}  // namespace lodgekv::pmem
