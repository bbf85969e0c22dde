// The traced medium of an arena: what is durable, and every word stored since.
//
// Invariants
//  1. durable() holds what survives any crash now: the memory when the tracer was constructed,
//     and all that was flushed and then fenced by the same thread.
//  2. Each line's pending stores are in program order (the order in which the tracer saw them).
//  3. A fence makes durable what its own thread flushed, up to the store before that flush, and the
//     words that its own thread streamed.
//
// Not thread-safe by itself: one thread at a time may store, flush and fence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index/pmem/internal/tracer.h"
#include "index/pmem/medium.h"
#include "tests/support/arena_memory.h"

namespace lodgekv::test {

// Which unfenced stores may survive (docs/crash_model.md).
enum class CrashModel : uint8_t {
  kLinePrefix,  // M1: a prefix of each line's stores; streamed words independently
  kTornWords,   // M2: any words of a line; the arena has strict_order
};
std::string ModelName(CrashModel model);

// A deliberate mistake, which the laboratory must notice.
struct Fault {
  enum class Kind : uint8_t {
    kNone,
    kDropFence,       // the first fence after the crash point `where` does nothing
    kForgetFlushes,   // what was flushed or streamed between the last fence and `where` was not
    kDropFlushes,     // flushes between `where` and the next fence do nothing
    kFlushElsewhere,  // flushes write back the line after the one that is meant
    // The medium is assumed to keep the order of a line's words wherever its fences are short.
    kOrderByFences,
    kAsk,  // the code asks by the name `where` (Medium::Canary)
    // Only for concurrent runs:
    kLateFence,      // the first fence after `where` takes effect when its call returns, not before
    kIgnoreEpochs,   // space is reused although readers may still read it
    kIgnoreMutexes,  // mutexes do not exclude anyone
  };
  Kind kind = Kind::kNone;
  std::string_view where = {};
};

struct PendingStore {
  uint32_t word;    // index in the arena
  uint32_t thread;  // worker slot
  uint64_t number;  // of all stores, ascending
  uint64_t value;
  bool stream;
};

class CrashTracer final : public pmem::Tracer {
 public:
  static constexpr size_t kWordBytes = sizeof(uint64_t);
  static constexpr size_t kWordsOfLine = pmem::kLineBytes / kWordBytes;

  // `memory` is taken as durable; or it is what a killed process left, with the unfenced stores
  // that `killed` knows of.
  explicit CrashTracer(std::span<const std::byte> memory, Fault fault = {},
                       const CrashTracer* killed = nullptr);

  // Called before a fence takes effect, but for that of a first touch inside an EpochGuard: an
  // engine that is opened meanwhile on this thread could wait for the guard.
  std::function<void()> before_fence;

  std::span<const std::byte> durable() const { return durable_.span(); }
  // Lines with stores that are not durable, in the order of their first such store.
  const std::vector<uint32_t>& dirty_lines() const { return dirty_; }
  const std::vector<PendingStore>& StoresTo(uint32_t line) const { return lines_[line]; }

  const std::set<std::string, std::less<>>& crash_points() const { return crash_points_; }
  // The last crash point that was hit.
  std::string_view last_point() const { return last_point_; }
  uint64_t stores() const { return stores_; }
  uint64_t fences() const { return fences_; }
  bool fault_happened() const { return fault_happened_; }

  void OnStore(const void* dst, size_t bytes, bool stream) override;
  void OnFlush(const void* line) override;
  void OnFence() override;
  void OnCrashPoint(std::string_view name) override;
  bool OnCanary(std::string_view name) override;

 private:
  // The flush of a line, or a streamed line, that waits for its thread's fence.
  struct Mark {
    uint32_t line;
    uint64_t up_to;  // the last store that the mark covers
    bool stream;
  };
  struct Thread {
    std::vector<Mark> marks;
    bool drops_fence = false;
    bool drops_flushes = false;
    bool flushes_elsewhere = false;
  };

  Thread& Current(uint32_t* number = nullptr);
  size_t OffsetOf(const void* address) const;
  void AddStore(size_t offset, uint32_t thread, bool stream);
  void Settle(const Mark& mark, uint32_t thread);

  const std::span<const std::byte> memory_;
  const Fault fault_;
  ArenaMemory durable_;
  std::vector<std::vector<PendingStore>> lines_;
  std::vector<uint32_t> dirty_;
  std::map<uint32_t, Thread> threads_;
  std::set<std::string, std::less<>> crash_points_;
  std::string_view last_point_;
  uint64_t stores_ = 0;
  uint64_t fences_ = 0;
  bool fault_happened_ = false;
};

}  // namespace lodgekv::test
