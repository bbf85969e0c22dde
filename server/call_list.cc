#include "server/call_list.h"

#include "server/call.h"

namespace lodgekv::server {

void CallList::PushBack(Call& call) {
  CallLinks& links = call;
  links.before_ = last_;
  links.behind_ = nullptr;
  links.listed_ = true;
  if (last_ != nullptr) static_cast<CallLinks*>(last_)->behind_ = &call;
  if (first_ == nullptr) first_ = &call;
  last_ = &call;
}

void CallList::Remove(Call& call) {
  CallLinks& links = call;
  if (!links.listed_) return;
  (links.before_ != nullptr ? static_cast<CallLinks*>(links.before_)->behind_ : first_) =
      links.behind_;
  (links.behind_ != nullptr ? static_cast<CallLinks*>(links.behind_)->before_ : last_) =
      links.before_;
  links.listed_ = false;
}

Call* CallList::Behind(const Call& call) {
  const CallLinks& links = call;
  return links.behind_;
}

Call* CallList::PopFront() {
  Call* call = first_;
  if (call != nullptr) Remove(*call);
  return call;
}

}  // namespace lodgekv::server
