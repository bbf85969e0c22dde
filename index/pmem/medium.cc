#include "index/pmem/medium.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace lodgekv::pmem {

// The counters of all threads that have fenced, and the sum of those that have ended.
struct CounterList {
  std::mutex mu;
  std::vector<ThreadCounters*> live;
  Cost ended;

  // Never destroyed: threads may end after static destructors have run.
  static CounterList& Get() {
    static CounterList& list = *new CounterList;
    return list;
  }
  void Add(ThreadCounters& counters) {
    counters.listed_ = true;
    const std::lock_guard lock(mu);
    live.push_back(&counters);
  }
  void Remove(ThreadCounters& counters);
};

namespace {

Cost Snapshot(const ThreadCounters& c) {
  const uint64_t lone = c.lone_words.Load();
  Cost cost;
  cost.lines_flushed = c.lines_flushed.Load() + lone;
  cost.fences = c.fences.Load() + lone;
  cost.media_writes_256b = c.media_writes_256b.Load() + lone;
  cost.bytes_stored = c.bytes_stored.Load() + lone * sizeof(uint64_t);
  return cost;
}

}  // namespace

void CounterList::Remove(ThreadCounters& counters) {
  const std::lock_guard lock(mu);
  std::erase(live, &counters);
  ended = ended + Snapshot(counters);
}

void ThreadCounters::List() {
  // Takes them off the list when the thread ends.
  struct Listed {
    ThreadCounters& counters;
    explicit Listed(ThreadCounters& of) : counters(of) { CounterList::Get().Add(of); }
    ~Listed() { CounterList::Get().Remove(counters); }
  };
  static thread_local const Listed listed(*this);
}

bool ThreadCounters::NoteFurther(uint64_t block) {
  if (block_count_ == 1) round_ += kRound;
  if (round_ == 0) {  // all numbers of rounds have been used
    std::ranges::fill(blocks_, 0);
    round_ = kRound;
  }
  const uint64_t entry = round_ | (block & (kRound - 1));
  size_t at = block % kBlockEntries;
  for (; blocks_[at] >= round_; at = (at + 1) % kBlockEntries) {
    if (blocks_[at] == entry) return false;
  }
  if (block_count_ > kMostBlocks) return true;
  blocks_[at] = entry;
  ++block_count_;
  return true;
}

void ThreadCounters::CountAmongOthers(const void* word) {
  bytes_stored.Add(sizeof(uint64_t));
  CountLine(word);
  CountFence();
}

void Medium::Fail() {
  failed_.store(true, std::memory_order_release);
  unusual_.store(true, std::memory_order_release);
}

void Medium::FenceOtherwise() {
  if (tracer_ != nullptr) tracer_->OnFence();
  if (mode_ == FlushMode::kFile) {
    FenceFile();
  } else if (fence_instruction_) {
    _mm_sfence();
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

void Medium::FenceFile() {
  if (failed()) return;
  if (!file_fence_->Fence()) Fail();
}

void Medium::WriteBackOtherwise(const void* address) {
  if (mode_ == FlushMode::kClflushopt) _mm_clflushopt(const_cast<void*>(address));
  if (mode_ == FlushMode::kFile) file_fence_->Note(LineOf(address));
}

void Medium::TraceAnyStore(const void* at, size_t bytes, bool flushed) {
  tracer_->OnStore(at, bytes, flushed);
}

void Medium::TraceFlush(const void* address) { tracer_->OnFlush(LineOf(address)); }

void Medium::TraceCrashPoint(std::string_view name) { tracer_->OnCrashPoint(name); }

void Medium::StoreLater(Word& word, uint64_t value) {
  CountBytes(sizeof(uint64_t));
  if (failed()) return;
  if (!file_fence_->StoreLater(&word.raw_, value)) Fail();
}

bool Medium::Revoke(const void* address, size_t bytes) {
  if (mode_ != FlushMode::kFile) return true;
  if (!failed() && !file_fence_->Revoke(address, bytes)) Fail();
  return !failed();
}

}  // namespace lodgekv::pmem

namespace lodgekv {

Cost ThreadCost() {
  pmem::ThreadCounters& counters = pmem::ThreadCounters::Current();
  counters.EnsureListed();
  return pmem::Snapshot(counters);
}

Cost TotalCost() {
  pmem::CounterList& list = pmem::CounterList::Get();
  const std::lock_guard lock(list.mu);
  Cost total = list.ended;
  for (const pmem::ThreadCounters* counters : list.live) total = total + pmem::Snapshot(*counters);
  return total;
}

}  // namespace lodgekv
