#include "server/admin/admin_worker.h"

#include <pthread.h>

#include <utility>

namespace lodgekv::server {

AdminWorker::AdminWorker(size_t most_waiting)
    : most_waiting_(most_waiting), thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "lodgekv-admin");
}

AdminWorker::~AdminWorker() { Stop(); }

void AdminWorker::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool AdminWorker::TryPost(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || calls_.size() + (busy_ ? 1 : 0) > most_waiting_) return false;
    calls_.push_back(std::move(call));
  }
  wake_.notify_one();
  return true;
}

void AdminWorker::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !calls_.empty(); });
    if (calls_.empty()) return;
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    busy_ = true;
    lock.unlock();
    call();
    lock.lock();
    busy_ = false;
  }
}

}  // namespace lodgekv::server
