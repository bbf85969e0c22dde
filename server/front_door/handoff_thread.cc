#include "server/front_door/handoff_thread.h"

#include <utility>

namespace lodgekv::server {

void HandoffThread::Start() {
  thread_ = std::thread([this] { Run(); });
}

void HandoffThread::HandOver(const Receiver& receiver, UniqueFd fd) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  waiting_.push_back({&receiver, std::move(fd)});
  changed_.notify_one();
}

size_t HandoffThread::waiting() {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void HandoffThread::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  waiting_.clear();
  changed_.notify_one();
}

bool HandoffThread::IsDone() {
  const std::lock_guard lock(mutex_);
  return closed_ && !busy_;
}

void HandoffThread::Stop() {
  Close();
  if (thread_.joinable()) thread_.join();
}

void HandoffThread::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (closed_) return;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    (*next.receiver)(next.fd.Release());
    lock.lock();
    busy_ = false;
  }
}

}  // namespace lodgekv::server
