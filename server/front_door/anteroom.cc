#include "server/front_door/anteroom.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace lodgekv::server {
namespace {

// Closed or reset by the other end. One that still reads counts as gone, too, for HTTP/2 has no use
// for half a connection.
bool HasLeft(const Newcomer& newcomer) {
  pollfd at_once{newcomer.fd.get(), POLLRDHUP, 0};
  return poll(&at_once, 1, 0) > 0;
}

}  // namespace

Anteroom::Place Anteroom::PlaceFor(const std::string& network, const EntryLimits& limits,
                                   DoorTime now) {
  const auto waiting = queues_.find(network);
  if (waiting == queues_.end()) {
    if (!entries_.EmptyUntil(network, limits.bucket, now)) return Place::kInside;
    return limits.longest_wait >= limits.bucket.refill ? Place::kHere : Place::kNone;
  }
  if (limits.bucket.most == 0) return Place::kHere;  // behind those of before a reload
  const auto most = static_cast<size_t>(limits.longest_wait / limits.bucket.refill);
  Queue& queue = waiting->second;
  if (queue.size() >= most) DropGone(queue);
  return queue.size() < most ? Place::kHere : Place::kNone;
}

void Anteroom::NoteEntry(const std::string& network, const EntryLimits& limits, DoorTime now) {
  entries_.Take(network, limits.bucket, now);
}

void Anteroom::Add(Newcomer newcomer) {
  queues_[newcomer.network].push_back(std::move(newcomer));
  ++size_;
}

std::vector<Newcomer> Anteroom::TakeDue(const EntryLimits& limits, DoorTime now, size_t most) {
  std::vector<Newcomer> due;
  for (auto& [network, queue] : queues_) {
    while (due.size() < most && !queue.empty()) {
      if (entries_.EmptyUntil(network, limits.bucket, now)) break;
      DropGone(queue);
      if (queue.empty()) break;
      entries_.Take(network, limits.bucket, now);
      due.push_back(std::move(queue.front()));
      queue.pop_front();
      --size_;
    }
  }
  absl::erase_if(queues_, [](const auto& of_peer) { return of_peer.second.empty(); });
  return due;
}

std::optional<DoorTime> Anteroom::NextDue(const EntryLimits& limits, DoorTime now) const {
  std::optional<DoorTime> next;
  for (const auto& [network, queue] : queues_) {
    const DoorTime due = entries_.EmptyUntil(network, limits.bucket, now).value_or(now);
    next = std::min(next.value_or(due), due);
  }
  return next;
}

std::optional<Newcomer> Anteroom::TakeOneTooMany(const std::string& network) {
  const auto longest = std::max_element(
      queues_.begin(), queues_.end(),
      [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); });
  if (longest == queues_.end() || longest->second.size() <= Waiting(network)) return std::nullopt;
  Newcomer taken = std::move(longest->second.back());
  longest->second.pop_back();
  --size_;
  if (longest->second.empty()) queues_.erase(longest);
  return taken;
}

void Anteroom::Clear() {
  queues_.clear();
  size_ = 0;
}

// From the front on.
void Anteroom::DropGone(Queue& queue) {
  while (!queue.empty() && HasLeft(queue.front())) {
    queue.pop_front();
    --size_;
  }
}

size_t Anteroom::Waiting(const std::string& network) const {
  const auto found = queues_.find(network);
  return found == queues_.end() ? 0 : found->second.size();
}

}  // namespace lodgekv::server
