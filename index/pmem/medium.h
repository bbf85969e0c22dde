// Medium: every store to the medium, every flush and every fence goes through it.
//
// Verbs. Flush: write lines back, without a fence. Fence: wait until this thread's flushes are
// durable. Persist: Flush + Fence; of a word, with its store. Stage: write space that no reader or
// recovery reads yet. Commit: the one 8-byte store that makes staged data valid. OrderStores,
// StoreOrdered: the fence before commits, without a wait where one sync can serve both.
//
// The model (docs/crash_model.md): the unit of atomicity is an aligned 8-byte word, the unit of
// persistence a 64-byte line. Before its fence a line may hold any prefix of the stores made to it;
// under strict_order() any subset of its words.
//
// Thread safety: all verbs may be called from any thread. A Fence covers the flushes of its own
// thread.
#pragma once

#include <immintrin.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "index/cost.h"
#include "index/pmem/internal/file_fence.h"
#include "index/pmem/internal/tracer.h"
#include "index/pmem/owned_counter.h"

namespace lodgekv::pmem {

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kBlockBytes = 256;

// Offset of an object from the pool's base. 0 is null.
using Offset = uint64_t;

// An 8-byte word on the medium. Loads are plain members; only Medium stores.
class Word {
 public:
  uint64_t Load() const { return Ref().load(std::memory_order_acquire); }
  uint64_t LoadRelaxed() const { return Ref().load(std::memory_order_relaxed); }

 private:
  friend class Medium;
  std::atomic_ref<uint64_t> Ref() const {
    return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(raw_));
  }
  uint64_t raw_;
};
static_assert(sizeof(Word) == 8 && alignof(Word) == 8);

// How Flush and Fence are implemented; chosen once when the pool is opened.
enum class FlushMode : uint8_t {
  kClwb,
  kClflushopt,
  kClflush,
  kNone,  // eADR: fence only; `process` durability: order only
  kFile,  // an ordinary file: see file_fence.h
};

// Counters of one thread; summed by TotalCost(). They are in its own storage: to count takes no
// branch; a fence and ThreadCost() list those of a new thread.
struct alignas(kLineBytes) ThreadCounters {
  OwnedCounter lines_flushed;
  OwnedCounter fences;
  OwnedCounter media_writes_256b;
  OwnedCounter bytes_stored;
  // Each of them all of the above: a word, in a line and a block, under a fence.
  OwnedCounter lone_words;

  static ThreadCounters& Current();

  // From here on, TotalCost has what they count.
  void EnsureListed() {
    if (!listed_) [[unlikely]]
      List();
  }

  // True: the block of `address` is not among those noted since the last call of ForgetBlocks, of
  // which so many are kept.
  bool NoteBlock(const void* address) {
    const uint64_t block = reinterpret_cast<uintptr_t>(address) / kBlockBytes;
    if (block_count_ == 0) {
      first_block_ = block;
      block_count_ = 1;
      return true;
    }
    return block != first_block_ && NoteFurther(block);
  }
  void ForgetBlocks() { block_count_ = 0; }

  void CountLine(const void* address) {
    lines_flushed.Add(1);
    if (NoteBlock(address)) media_writes_256b.Add(1);
  }
  void CountFence() {
    fences.Add(1);
    ForgetBlocks();
    EnsureListed();
  }
  // A word that has been stored and flushed, and a fence.
  void CountWordAndFence(const void* word) {
    if (block_count_ == 0) [[likely]] {
      lone_words.Add(1);
      EnsureListed();
    } else {
      CountAmongOthers(word);
    }
  }

 private:
  friend struct CounterList;  // medium.cc

  // A table of the blocks after the first one, with linear probing. An entry is a block in the low
  // bits and above them the number of the round, from one ForgetBlocks to the next, in which it was
  // noted: nothing is erased.
  static constexpr size_t kBlockEntries = 128;
  static constexpr uint32_t kMostBlocks = 61;
  static constexpr uint64_t kRound = uint64_t{1} << 50;
  bool NoteFurther(uint64_t block);         // medium.cc
  void CountAmongOthers(const void* word);  // medium.cc
  void List();                              // medium.cc

  bool listed_ = false;
  uint32_t block_count_ = 0;
  uint64_t first_block_ = 0;
  uint64_t round_ = 0;  // entries of earlier rounds are below it
  uint64_t blocks_[kBlockEntries] = {};
};

namespace internal {
inline constinit thread_local ThreadCounters thread_counters;
}  // namespace internal
inline ThreadCounters& ThreadCounters::Current() { return internal::thread_counters; }

class Medium {
 public:
  struct Options {
    FlushMode mode = FlushMode::kNone;
    bool fence_instruction = true;  // false: `process` durability, a compiler barrier is enough
    bool strict_order = true;  // lines may tear: commit protocols fence between words of one line
    bool long_fences = false;  // a fence may wait for a disk; always so with FlushMode::kFile
    FileFence* file_fence = nullptr;  // with FlushMode::kFile; outlives the Medium
    Tracer* tracer = nullptr;         // tests only; outlives the Medium
  };
  explicit Medium(const Options& options)
      : mode_(options.mode),
        fence_instruction_(options.fence_instruction),
        strict_order_(options.strict_order),
        long_fences_(options.long_fences || options.mode == FlushMode::kFile),
        plain_(options.fence_instruction && options.mode != FlushMode::kFile &&
               options.tracer == nullptr),
        unusual_(options.tracer != nullptr),
        file_fence_(options.file_fence),
        tracer_(options.tracer) {}
  Medium(const Medium&) = delete;
  Medium& operator=(const Medium&) = delete;

  // One atomic 8-byte store, visible to other threads in order (release).
  void Store(Word& word, uint64_t value) {
    word.Ref().store(value, std::memory_order_release);
    CountBytes(sizeof(uint64_t));
    TraceStore(&word, sizeof(uint64_t), false);
  }

  // The same of two words, one after the other; cheaper than two calls.
  void StoreTwo(Word& first, uint64_t first_value, Word& second, uint64_t second_value) {
    first.Ref().store(first_value, std::memory_order_release);
    TraceStore(&first, sizeof(uint64_t), false);
    second.Ref().store(second_value, std::memory_order_release);
    TraceStore(&second, sizeof(uint64_t), false);
    CountBytes(2 * sizeof(uint64_t));
  }

  // Stages bytes in space that nobody reads yet. Not atomic.
  void StoreBulk(void* dst, const void* src, size_t bytes) {
    std::memcpy(dst, src, bytes);
    CountBytes(bytes);
    TraceStore(dst, bytes, false);
  }

  // Stages zeros in space that nobody reads yet.
  void StoreZeros(void* dst, size_t bytes) {
    std::memset(dst, 0, bytes);
    CountBytes(bytes);
    TraceStore(dst, bytes, false);
  }

  // Writes one whole line with streaming stores and counts it as flushed: the next Fence makes it
  // durable. Both pointers are line-aligned. Until then its words may survive independently of one
  // another, so the data must carry a checksum.
  void StreamLine(void* dst, const void* src) {
    if (mode_ == FlushMode::kClwb || mode_ == FlushMode::kClflushopt) {
      const auto* from = static_cast<const __m256i*>(src);
      auto* to = static_cast<__m256i*>(dst);
      _mm256_stream_si256(to, _mm256_load_si256(from));
      _mm256_stream_si256(to + 1, _mm256_load_si256(from + 1));
    } else {
      std::memcpy(dst, src, kLineBytes);
      if (mode_ == FlushMode::kClflush || mode_ == FlushMode::kFile) WriteBack(dst);
    }
    CountBytes(kLineBytes);
    CountLine(dst);
    TraceStore(dst, kLineBytes, true);
  }

  // Writes back the line that holds `address`.
  void FlushLine(const void* address) {
    CountLine(address);
    WriteBack(address);
    if (tracer_ != nullptr) [[unlikely]]
      TraceFlush(address);
  }

  // Writes back, of what begins at a line's start, the lines whose bit is set.
  void FlushLines(const void* begin, uint32_t lines) {
    for (; lines != 0; lines &= lines - 1) {
      FlushLine(static_cast<const char*>(begin) +
                static_cast<unsigned>(std::countr_zero(lines)) * kLineBytes);
    }
  }

  // Writes back every line that [address, address + bytes) touches; nothing when bytes is 0.
  void Flush(const void* address, size_t bytes) {
    if (bytes == 0) return;
    const char* line = LineOf(address);
    const char* end = static_cast<const char*>(address) + bytes;
    for (; line < end; line += kLineBytes) FlushLine(line);
  }

  // Returns when what this thread has flushed is durable. If a file cannot be written or synced,
  // failed() is true from then on, and the failure handler has been called.
  void Fence() {
    if (plain_) [[likely]] {
      _mm_sfence();
    } else {
      FenceOtherwise();
    }
    CountFence();
  }

  // What this thread has flushed, and what it stored by StoreOrdered, is durable before anything
  // that it stores by StoreOrdered from now on. A Fence; but on an ordinary file with a journal it
  // waits for nothing.
  void OrderStores() {
    if (!StoresLater()) Fence();
  }

  // Store, behind OrderStores; Flush as usual. On a file with a journal the word changes, for all
  // threads, only in this thread's next Fence, when it is durable: do not read it before, nor Store
  // to it.
  void StoreOrdered(Word& word, uint64_t value) {
    if (StoresLater()) {
      StoreLater(word, value);
    } else {
      Store(word, value);
    }
  }

  void Persist(const void* address, size_t bytes) {
    Flush(address, bytes);
    Fence();
  }

  // Store, FlushLine and Fence, in one look at how they are made: a commit that is durable on
  // return. `at_point`, if the fence is no instruction or there is a tracer, is called before it:
  // for the crash point there.
  template <class AtPoint>
  void PersistWord(Word& word, uint64_t value, AtPoint at_point) {
    if (plain_) [[likely]]
      return PersistPlainly(word, value);
    PersistOtherwise(word, value, at_point, /*ordered=*/false);
  }
  // The same by StoreOrdered.
  template <class AtPoint>
  void PersistOrdered(Word& word, uint64_t value, AtPoint at_point) {
    if (plain_) [[likely]]
      return PersistPlainly(word, value);
    PersistOtherwise(word, value, at_point, /*ordered=*/true);
  }

  // Call before [address, address + bytes), whole lines, is returned to libpmemobj: nothing that
  // was fenced there reappears after a crash. If it returns false (failed()), keep the space.
  bool Revoke(const void* address, size_t bytes);

  // Sets how fences are made on an ordinary file. No other thread may use the medium meanwhile.
  void SetFileFence(FileFence* file_fence) { file_fence_ = file_fence; }

  // True: a line's words may survive in any combination, so a protocol that depends on the order of
  // two stores to one line must fence between them.
  bool strict_order() const { return strict_order_; }

  // False: a fence is an instruction. True: it may wait for a disk, and readers should not wait for
  // it unnecessarily.
  bool long_fences() const { return long_fences_; }

  // True after a sync has failed; nothing may be acknowledged any more.
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  // Whether something is out of the ordinary: failed(), or there is a tracer. One look for paths
  // that do more then.
  bool unusual() const { return unusual_.load(std::memory_order_acquire); }

  FlushMode mode() const { return mode_; }
  Tracer* tracer() const { return tracer_; }

  // See crash_point.h.
  void CrashPoint(std::string_view name) {
    if (tracer_ != nullptr) [[unlikely]]
      TraceCrashPoint(name);
  }
  // True only in a test that requests this mistake.
  bool Canary(std::string_view name) { return tracer_ != nullptr && tracer_->OnCanary(name); }

 private:
  static const char* LineOf(const void* address) {
    return reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(address) & ~(kLineBytes - 1));
  }

  void WriteBack(const void* address) {
    if (mode_ == FlushMode::kClwb) [[likely]] {
      _mm_clwb(const_cast<void*>(address));
    } else if (mode_ == FlushMode::kClflush) {
      _mm_clflush(address);
    } else {
      WriteBackOtherwise(address);
    }
  }
  void TraceStore(const void* at, size_t bytes, bool flushed) {
    if (tracer_ != nullptr) [[unlikely]]
      TraceAnyStore(at, bytes, flushed);
  }

  static void CountBytes(size_t bytes) { ThreadCounters::Current().bytes_stored.Add(bytes); }

  static void CountLine(const void* address) { ThreadCounters::Current().CountLine(address); }
  static void CountFence() { ThreadCounters::Current().CountFence(); }

  void PersistPlainly(Word& word, uint64_t value) {
    word.Ref().store(value, std::memory_order_release);
    WriteBack(&word);
    _mm_sfence();
    ThreadCounters::Current().CountWordAndFence(&word);
  }
  template <class AtPoint>
  [[gnu::noinline, gnu::cold]] void PersistOtherwise(Word& word, uint64_t value, AtPoint at_point,
                                                     bool ordered) {
    if (ordered) {
      StoreOrdered(word, value);
    } else {
      Store(word, value);
    }
    FlushLine(&word);
    at_point();
    Fence();
  }

  bool StoresLater() const { return mode_ == FlushMode::kFile && file_fence_->stores_later(); }
  // What is seldom needed: not inline, since it would make every path longer.
  void StoreLater(Word& word, uint64_t value);
  void FenceOtherwise();
  void FenceFile();
  void WriteBackOtherwise(const void* address);
  void TraceAnyStore(const void* at, size_t bytes, bool flushed);
  void TraceFlush(const void* address);
  void TraceCrashPoint(std::string_view name);
  void Fail();

  const FlushMode mode_;
  const bool fence_instruction_;
  const bool strict_order_;
  const bool long_fences_;
  const bool plain_;  // fences are instructions, and there is no tracer
  std::atomic<bool> failed_{false};
  std::atomic<bool> unusual_;
  FileFence* file_fence_;
  Tracer* const tracer_;
};

}  // namespace lodgekv::pmem
