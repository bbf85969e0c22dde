// What a completion queue carries for the thread that takes its events, and services whose calls
// arrive on one.
#pragma once

#include <grpcpp/completion_queue.h>

namespace lodgekv::server {

class Event {
 public:
  virtual ~Event() = default;
  // ok: the completion queue's flag for the event.
  virtual void OnEvent(bool ok) = 0;
  // The pointer that the completion queue carries.
  void* Tag() { return static_cast<Event*>(this); }
};

// Calls a method of its owner.
template <class Owner, void (Owner::*handle)(bool)>
class MemberEvent final : public Event {
 public:
  explicit MemberEvent(Owner& owner) : owner_(owner) {}
  void OnEvent(bool ok) override { (owner_.*handle)(ok); }

 private:
  Owner& owner_;
};

// A service beside the data's, on the queue of a poller: so that the poller is the only thread that
// waits for sockets (docs/decisions/0031).
class QueuedService {
 public:
  // Begins to receive calls on `queue`, which the service's server knows. Once, when that server
  // has started, by the thread that takes the queue's events. The last of them arrives when the
  // server has shut down.
  virtual void Receive(grpc::ServerCompletionQueue& queue) = 0;

 protected:
  ~QueuedService() = default;
};

}  // namespace lodgekv::server
