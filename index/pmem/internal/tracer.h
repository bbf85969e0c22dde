// A hook of Medium for tests: it sees every store, flush and fence in program order, and may inject
// faults. While one is attached no cache line is really flushed.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace lodgekv::pmem {

// Runs the threads that an engine starts, where a test decides which thread runs next.
class ThreadHost {
 public:
  virtual ~ThreadHost() = default;
  // Calls `body` on one of the host's threads, which belongs to `owner`. It may sleep at condition
  // variables between two runs of the test's own threads.
  virtual void Start(const void* owner, std::function<void()> body) = 0;
  // Returns when the threads of the host sleep or have ended, if the caller is not itself scheduled
  // by the host; otherwise at once.
  virtual void LetRun() = 0;
  // Returns when the body of `owner`'s thread has returned.
  virtual void Join(const void* owner) = 0;
};

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
  // For the threads of an engine on this medium. Null: the engine starts none, and does their work
  // in place.
  virtual ThreadHost* thread_host() { return nullptr; }
};

}  // namespace lodgekv::pmem
