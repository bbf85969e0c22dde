// Lists of calls that take no memory of their own: a call carries its links.
//
// INVARIANT  A call is in at most one list at a time.
#pragma once

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
  void PushBack(Call& call);
  // Without effect on a call that is in no list.
  void Remove(Call& call);
  Call* PopFront();

 private:
  Call* first_ = nullptr;
  Call* last_ = nullptr;
};

// Calls of a kind that wait for the engine: in two lists, which are taken from in turns, so that
// what is in the one waits for at most as much of the other, however long that is.
template <class AnyCall>
class WorkQueue {
 public:
  bool empty() const { return light_.empty() && heavy_.empty(); }
  // Light: of a connection that holds little, or the first page of a scan.
  void Add(AnyCall& call, bool light) { (light ? light_ : heavy_).PushBack(call); }
  // Not of an empty one.
  AnyCall* Take() {
    const bool light = heavy_.empty() || (!light_.empty() && light_is_next_);
    light_is_next_ = !light;
    return static_cast<AnyCall*>((light ? light_ : heavy_).PopFront());
  }

 private:
  CallList light_;
  CallList heavy_;
  bool light_is_next_ = true;
};

}  // namespace lodgekv::server
