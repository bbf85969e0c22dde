#include "server/front_door/usher.h"

#include <utility>

namespace lodgekv::server {

void Usher::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Usher::HandOn(const Taker& taker, UniqueFd fd) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  waiting_.push_back({&taker, std::move(fd)});
  changed_.notify_one();
}

size_t Usher::waiting() {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void Usher::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  waiting_.clear();
  changed_.notify_one();
}

bool Usher::IsDone() {
  const std::lock_guard lock(mutex_);
  return closed_ && !busy_;
}

void Usher::Stop() {
  Close();
  if (thread_.joinable()) thread_.join();
}

void Usher::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (closed_) return;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    (*next.taker)(next.fd.Release());
    lock.lock();
    busy_ = false;
  }
}

}  // namespace lodgekv::server
