#include "server/front_door/delayed_connections.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace lodgekv::server {
namespace {

// Closed or reset by the remote end. A half-closed connection counts as closed, too, since HTTP/2
// needs both directions.
bool IsClosed(const AcceptedConnection& accepted) {
  pollfd at_once{accepted.fd.get(), POLLRDHUP, 0};
  return poll(&at_once, 1, 0) > 0;
}

}  // namespace

DelayedConnections::Decision DelayedConnections::DecisionFor(const std::string& network,
                                                             const ConnectionRateLimits& limits,
                                                             DoorTime now) {
  const auto waiting = queues_.find(network);
  if (waiting == queues_.end()) {
    if (!buckets_.EmptyUntil(network, limits.bucket, now)) return Decision::kAdmit;
    return limits.longest_wait >= limits.bucket.refill ? Decision::kDelay : Decision::kRefuse;
  }
  if (limits.bucket.most == 0) return Decision::kDelay;  // after those queued before a reload
  const auto most = static_cast<size_t>(limits.longest_wait / limits.bucket.refill);
  Queue& queue = waiting->second;
  if (queue.size() >= most) DropClosed(queue);
  return queue.size() < most ? Decision::kDelay : Decision::kRefuse;
}

void DelayedConnections::NoteAdmitted(const std::string& network,
                                      const ConnectionRateLimits& limits, DoorTime now) {
  buckets_.Take(network, limits.bucket, now);
}

void DelayedConnections::Add(AcceptedConnection accepted) {
  queues_[accepted.network].push_back(std::move(accepted));
  ++size_;
}

std::vector<AcceptedConnection> DelayedConnections::TakeDue(const ConnectionRateLimits& limits,
                                                            DoorTime now, size_t most) {
  std::vector<AcceptedConnection> due;
  for (auto& [network, queue] : queues_) {
    while (due.size() < most && !queue.empty()) {
      if (buckets_.EmptyUntil(network, limits.bucket, now)) break;
      DropClosed(queue);
      if (queue.empty()) break;
      buckets_.Take(network, limits.bucket, now);
      due.push_back(std::move(queue.front()));
      queue.pop_front();
      --size_;
    }
  }
  absl::erase_if(queues_, [](const auto& of_peer) { return of_peer.second.empty(); });
  return due;
}

std::optional<DoorTime> DelayedConnections::NextDue(const ConnectionRateLimits& limits,
                                                    DoorTime now) const {
  std::optional<DoorTime> next;
  for (const auto& [network, queue] : queues_) {
    const DoorTime due = buckets_.EmptyUntil(network, limits.bucket, now).value_or(now);
    next = std::min(next.value_or(due), due);
  }
  return next;
}

std::optional<AcceptedConnection> DelayedConnections::TakeFromLongest(const std::string& network) {
  const auto longest = std::max_element(
      queues_.begin(), queues_.end(),
      [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); });
  if (longest == queues_.end() || longest->second.size() <= Waiting(network)) return std::nullopt;
  AcceptedConnection taken = std::move(longest->second.back());
  longest->second.pop_back();
  --size_;
  if (longest->second.empty()) queues_.erase(longest);
  return taken;
}

void DelayedConnections::Clear() {
  queues_.clear();
  size_ = 0;
}

// Closed ones at the front of the queue.
void DelayedConnections::DropClosed(Queue& queue) {
  while (!queue.empty() && IsClosed(queue.front())) {
    queue.pop_front();
    --size_;
  }
}

size_t DelayedConnections::Waiting(const std::string& network) const {
  const auto found = queues_.find(network);
  return found == queues_.end() ? 0 : found->second.size();
}

}  // namespace lodgekv::server
