// For tests: a tracer under which an engine starts threads, as without one. It counts what these do
// to the medium, and can hold them where the test wants them. Who joins a thread lets it go: so an
// engine's end is not held up, and a thread that was held has been told to stop. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "index/pmem/medium.h"

namespace lodgekv::pmem {

class HostedTracer final : public Tracer, public ThreadHost {
 public:
  HostedTracer() = default;
  ~HostedTracer() override {
    Hold(At::kNowhere);
    for (auto& [owner, thread] : threads_) thread.join();
  }
  HostedTracer(const HostedTracer&) = delete;
  HostedTracer& operator=(const HostedTracer&) = delete;

  enum class At : uint8_t {
    kNowhere,
    kStart,  // before its first step
    kFence,  // in the middle of a step
  };
  // From now on a thread of the engine that comes there waits; those that wait elsewhere go on.
  void Hold(At place) {
    const std::lock_guard lock(mutex_);
    place_ = place;
    changed_.notify_all();
  }
  // Returns when a thread waits there.
  void AwaitHeld(At place) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_at_ == place; });
  }

  // Threads that were started and not joined.
  size_t threads() const {
    const std::lock_guard lock(mutex_);
    return threads_.size();
  }
  // Stores, flushes and fences by threads of the engine.
  uint64_t touches() const { return touches_.load(); }

  // Tracer
  void OnStore(const void*, size_t, bool) override { Count(); }
  void OnFlush(const void*) override { Count(); }
  void OnFence() override {
    Count();
    if (owner_ != nullptr) WaitAt(At::kFence);
  }
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view) override { return false; }
  ThreadHost* thread_host() override { return this; }

  // ThreadHost
  void Start(const void* owner, std::function<void()> body) override {
    const std::lock_guard lock(mutex_);
    threads_[owner] = std::thread([this, owner, body = std::move(body)] {
      owner_ = owner;
      WaitAt(At::kStart);
      body();
    });
  }
  void LetRun() override {}
  void Join(const void* owner) override {
    std::unique_lock lock(mutex_);
    auto joined = threads_.extract(owner);
    if (joined.empty()) return;
    joining_ = owner;
    changed_.notify_all();
    lock.unlock();
    joined.mapped().join();
    lock.lock();
    joining_ = nullptr;
  }

 private:
  void Count() {
    if (owner_ != nullptr) touches_.fetch_add(1);
  }
  void WaitAt(At place) {
    std::unique_lock lock(mutex_);
    if (place_ != place || joining_ == owner_) return;
    held_at_ = place;
    changed_.notify_all();
    changed_.wait(lock, [&] { return place_ != place || joining_ == owner_; });
    held_at_ = At::kNowhere;
  }

  static inline thread_local const void* owner_ = nullptr;  // of a thread that is the host's
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  At place_ = At::kNowhere;
  At held_at_ = At::kNowhere;
  const void* joining_ = nullptr;  // the owner whose thread is being joined; one at a time
  std::map<const void*, std::thread> threads_;
  std::atomic<uint64_t> touches_{0};
};

}  // namespace lodgekv::pmem
