// Work of one kind that is queued for the engine: in several lists that are served in turn, so that
// a call waits for at most as many of each other list as of its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "server/rpc/call_list.h"

namespace lodgekv::server {

// The lists that every queue has.
inline constexpr size_t kLightList = 0;  // calls of light connections
inline constexpr size_t kHeavyList = 1;

// Of a call, or of a turn of a session.
template <class AnyWork>
size_t ListOf(const AnyWork& work) {
  return work.ConnectionIsLight() ? kLightList : kHeavyList;
}

template <class AnyCall, size_t kLists>
class WorkQueue {
 public:
  bool empty() const {
    return std::all_of(lists_.begin(), lists_.end(), [](const auto& list) { return list.empty(); });
  }
  void Add(AnyCall& call, size_t list) { lists_[list].PushBack(call); }
  // The queue must not be empty.
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
