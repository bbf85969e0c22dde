// Calls of a kind that wait for the engine: in several lists, which are taken from in turns, so
// that what is in one waits for at most as much of each other, however long that is.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "server/rpc/call.h"
#include "server/rpc/call_list.h"

namespace lodgekv::server {

// The lists that every queue has.
inline constexpr size_t kOfLittle = 0;  // calls of connections that hold little
inline constexpr size_t kOfMuch = 1;

inline size_t ListOf(const Call& call) {
  return call.ConnectionHoldsLittle() ? kOfLittle : kOfMuch;
}

template <class AnyCall, size_t kLists>
class WorkQueue {
 public:
  bool empty() const {
    return std::all_of(lists_.begin(), lists_.end(), [](const auto& list) { return list.empty(); });
  }
  void Add(AnyCall& call, size_t list) { lists_[list].PushBack(call); }
  // Not of an empty one.
  AnyCall* Take() {
    while (lists_[next_].empty()) next_ = (next_ + 1) % kLists;
    CallList<AnyCall>& list = lists_[next_];
    next_ = (next_ + 1) % kLists;
    return list.PopFront();
  }

 private:
  std::array<CallList<AnyCall>, kLists> lists_;
  size_t next_ = 0;
};

}  // namespace lodgekv::server
