#include "server/rpc/page_queue.h"

namespace lodgekv::server {
namespace {

// Pages that wait for room and are tried at a time, so that others are served in between.
constexpr int kRetriesAtOnce = 4;
// A third list: later pages of connections that are not light, and pages that waited for room.
constexpr size_t kLaterPages = 2;

}  // namespace

void PageQueue::Add(PageCall& call) {
  // A scan of a few items ends with its first page.
  const size_t list = ListOf(call);
  pages_.Add(call, list == kHeavyList && !call.IsFirstPage() ? kLaterPages : list);
}

void PageQueue::RetryWaiting() {
  for (int i = 0; i < kRetriesAtOnce && !waiting_.empty(); ++i) {
    pages_.Add(*waiting_.PopFront(), kLaterPages);
  }
}

}  // namespace lodgekv::server
