#include "index/pmem/medium.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace lodgekv::pmem {
namespace {

// Every block ever allocated; those of ended threads are in `idle`, with their counts kept. Never
// destroyed: threads may end after static destructors have run.
struct Registry {
  std::mutex mu;
  std::vector<std::unique_ptr<ThreadCounters>> all;
  std::vector<ThreadCounters*> idle;
};

Registry& GetRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

// Returns the thread's block when the thread ends.
struct Holder {
  ThreadCounters* counters = nullptr;
  ThreadCounters** current = nullptr;
  ~Holder() {
    if (counters == nullptr) return;
    *current = nullptr;
    Registry& registry = GetRegistry();
    std::lock_guard lock(registry.mu);
    registry.idle.push_back(counters);
  }
};

Cost Snapshot(const ThreadCounters& c) {
  Cost cost;
  cost.lines_flushed = c.lines_flushed.load(std::memory_order_relaxed);
  cost.fences = c.fences.load(std::memory_order_relaxed);
  cost.media_writes_256b = c.media_writes_256b.load(std::memory_order_relaxed);
  cost.bytes_stored = c.bytes_stored.load(std::memory_order_relaxed);
  return cost;
}

}  // namespace

ThreadCounters* ThreadCounters::Register() {
  static thread_local Holder holder;
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mu);
  if (registry.idle.empty()) {
    registry.all.push_back(std::make_unique<ThreadCounters>());
    registry.idle.push_back(registry.all.back().get());
  }
  holder.counters = registry.idle.back();
  holder.current = &current_;
  registry.idle.pop_back();
  holder.counters->ForgetBlocks();
  return holder.counters;
}

void ThreadCounters::StartRounds() {
  std::ranges::fill(blocks_, 0);
  round_ = kRound;
}

void Medium::FenceFile() {
  if (failed()) return;
  if (!file_fence_->Fence()) failed_.store(true, std::memory_order_release);
}

void Medium::StoreLater(Word& word, uint64_t value) {
  CountBytes(sizeof(uint64_t));
  if (failed()) return;
  if (!file_fence_->StoreLater(&word.raw_, value)) failed_.store(true, std::memory_order_release);
}

bool Medium::Revoke(const void* address, size_t bytes) {
  if (mode_ != FlushMode::kFile) return true;
  if (!failed() && !file_fence_->Revoke(address, bytes)) {
    failed_.store(true, std::memory_order_release);
  }
  return !failed();
}

}  // namespace lodgekv::pmem

namespace lodgekv {

Cost ThreadCost() { return pmem::Snapshot(pmem::ThreadCounters::Current()); }

Cost TotalCost() {
  pmem::Registry& registry = pmem::GetRegistry();
  std::lock_guard lock(registry.mu);
  Cost total;
  for (const auto& counters : registry.all) total = total + pmem::Snapshot(*counters);
  return total;
}

}  // namespace lodgekv
