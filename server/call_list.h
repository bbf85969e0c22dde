// Lists of calls that take no memory of their own: a call carries its links.
//
// INVARIANT  A call is in at most one list at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace lodgekv::server {

class Call;

class CallLinks {
 protected:
  ~CallLinks() = default;

 private:
  friend class CallList;
  Call* before_ = nullptr;
  Call* behind_ = nullptr;
  bool listed_ = false;
};

class CallList {
 public:
  bool empty() const { return first_ == nullptr; }
  Call* first() const { return first_; }
  // Of one in this list; null: it is the last.
  static Call* Behind(const Call& call);
  void PushBack(Call& call);
  // Without effect on a call that is in no list.
  void Remove(Call& call);
  Call* PopFront();

 private:
  Call* first_ = nullptr;
  Call* last_ = nullptr;
};

// Calls of a kind that wait for the engine: in several lists, which are taken from in turns, so
// that what is in one waits for at most as much of each other, however long that is.
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
    CallList& list = lists_[next_];
    next_ = (next_ + 1) % kLists;
    return static_cast<AnyCall*>(list.PopFront());
  }

 private:
  std::array<CallList, kLists> lists_;
  size_t next_ = 0;
};

}  // namespace lodgekv::server
