#include "server/rpc/session_turn.h"

#include <algorithm>
#include <utility>

namespace lodgekv::server {

void SessionTurn::Add(std::unique_ptr<SessionMessage> message) {
  operations_ += message->operations();
  gets_ += message->gets();
  bytes_ += message->bytes();
  writes_ |= message->writes() != 0;
  messages_.push_back(std::move(message));
}

std::vector<std::unique_ptr<SessionMessage>> SessionTurn::Take() {
  operations_ = 0;
  gets_ = 0;
  bytes_ = 0;
  writes_ = false;
  return std::exchange(messages_, {});
}

bool SessionTurn::served() const {
  return std::ranges::all_of(messages_, [](const auto& message) { return message->served(); });
}

bool SessionTurn::IsLong(uint64_t value_bytes) const {
  return operations_ > (writes_ ? kLongBatchOfWrites : kLongBatchOfReads) || bytes_ > kLongBytes ||
         gets_ * value_bytes > kLongBytes;
}

}  // namespace lodgekv::server
