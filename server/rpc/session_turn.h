// Messages of one session that are served together. A session has one turn at a time, so that what
// it asks takes effect in the order sent, whichever thread serves it.
//
// INVARIANT  An atomic message is alone in its turn.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/rpc/call_kinds.h"
#include "server/rpc/session_message.h"
#include "server/rpc/work.h"

namespace lodgekv::server {

// The session, as its turn knows it.
class TurnHost {
 public:
  virtual bool TurnIsLight() const = 0;
  // The turn has been served. By the poller's thread.
  virtual void DeliverTurn() = 0;
  // Has the poller's thread deliver it. For any thread.
  virtual void GiveBackTurn() = 0;

 protected:
  ~TurnHost() = default;
};

class SessionTurn final : public Work {
 public:
  explicit SessionTurn(TurnHost& session) : session_(session) {}

  void Add(std::unique_ptr<SessionMessage> message);
  // The messages, served; the turn is empty then.
  std::vector<std::unique_ptr<SessionMessage>> Take();

  const std::vector<std::unique_ptr<SessionMessage>>& messages() const { return messages_; }
  bool atomic() const { return messages_.front()->atomic(); }
  uint64_t operations() const { return operations_; }
  uint64_t gets() const { return gets_; }
  bool writes() const { return writes_; }
  // Whether nothing of its messages is left to do.
  bool served() const;
  // Whether serving it takes as long as many single calls, if each value that it reads has so many
  // bytes.
  bool IsLong(uint64_t value_bytes) const;

  bool ConnectionIsLight() const { return session_.TurnIsLight(); }
  void Deliver() override { session_.DeliverTurn(); }
  // Has the session's poller deliver it. By the thread that served it.
  void GiveBack() { session_.GiveBackTurn(); }

 private:
  TurnHost& session_;
  std::vector<std::unique_ptr<SessionMessage>> messages_;
  uint64_t operations_ = 0;
  uint64_t gets_ = 0;
  uint64_t bytes_ = 0;
  bool writes_ = false;
};

}  // namespace lodgekv::server
