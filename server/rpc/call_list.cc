#include "server/rpc/call_list.h"

namespace lodgekv::server {

void LinkList::PushBack(CallLinks& links) {
  links.before_ = last_;
  links.behind_ = nullptr;
  links.listed_ = true;
  (last_ != nullptr ? last_->behind_ : first_) = &links;
  last_ = &links;
}

void LinkList::Remove(CallLinks& links) {
  if (!links.listed_) return;
  (links.before_ != nullptr ? links.before_->behind_ : first_) = links.behind_;
  (links.behind_ != nullptr ? links.behind_->before_ : last_) = links.before_;
  links.listed_ = false;
}

CallLinks* LinkList::PopFront() {
  CallLinks* links = first_;
  if (links != nullptr) Remove(*links);
  return links;
}

}  // namespace lodgekv::server
