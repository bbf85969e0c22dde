// Lists of calls that take no memory of their own: a call carries its links.
//
// INVARIANT  A call is in at most one list at a time.
#pragma once

namespace lodgekv::server {

class CallLinks {
 protected:
  ~CallLinks() = default;

 private:
  friend class LinkList;
  CallLinks* before_ = nullptr;
  CallLinks* behind_ = nullptr;
  bool listed_ = false;
};

// What the list of any kind of call does.
class LinkList {
 public:
  bool empty() const { return first_ == nullptr; }

 protected:
  CallLinks* first() const { return first_; }
  static CallLinks* Behind(const CallLinks& links) { return links.behind_; }
  void PushBack(CallLinks& links);
  void Remove(CallLinks& links);
  CallLinks* PopFront();

 private:
  CallLinks* first_ = nullptr;
  CallLinks* last_ = nullptr;
};

template <class AnyCall>
class CallList : private LinkList {
 public:
  using LinkList::empty;
  AnyCall* first() const { return static_cast<AnyCall*>(LinkList::first()); }
  // Of one in this list; null: it is the last.
  static AnyCall* Behind(const AnyCall& call) {
    return static_cast<AnyCall*>(LinkList::Behind(call));
  }
  void PushBack(AnyCall& call) { LinkList::PushBack(call); }
  // Without effect on a call that is in no list.
  void Remove(AnyCall& call) { LinkList::Remove(call); }
  AnyCall* PopFront() { return static_cast<AnyCall*>(LinkList::PopFront()); }
};

}  // namespace lodgekv::server
