// Intrusive lists of calls: a call carries its own links.
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

// The part that does not depend on the type of the call.
class LinkList {
 public:
  bool empty() const { return first_ == nullptr; }

 protected:
  CallLinks* first() const { return first_; }
  static CallLinks* Next(const CallLinks& links) { return links.behind_; }
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
  // The call after one in this list; null: it is the last.
  static AnyCall* Next(const AnyCall& call) { return static_cast<AnyCall*>(LinkList::Next(call)); }
  void PushBack(AnyCall& call) { LinkList::PushBack(call); }
  // Without effect on a call that is in no list.
  void Remove(AnyCall& call) { LinkList::Remove(call); }
  AnyCall* PopFront() { return static_cast<AnyCall*>(LinkList::PopFront()); }
};

}  // namespace lodgekv::server
