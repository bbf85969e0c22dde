#include "server/rpc/page_queue.h"

namespace lodgekv::server {
namespace {

// Pages between two polls for events: each may take a millisecond.
constexpr int kPagesPerRound = 4;
// A third list: later pages of connections that are not light, and pages that waited for room.
constexpr size_t kLaterPages = 2;

}  // namespace

void PageQueue::Add(PageCall& call) {
  // A scan of a few items ends with its first page.
  const size_t list = ListOf(call);
  pages_.Add(call, list == kHeavyList && !call.IsFirstPage() ? kLaterPages : list);
}

void PageQueue::Serve(Engine& engine, bool stopping) {
  // Tries as many that wait for room as are served, so that a round stays short.
  for (int i = 0; i < kPagesPerRound && !waiting_.empty(); ++i) {
    pages_.Add(*waiting_.PopFront(), kLaterPages);
  }
  for (int i = 0; i < kPagesPerRound && !pages_.empty(); ++i) {
    PageCall* call = pages_.Take();
    if (!call->ServePage(engine, message_, stopping)) waiting_.PushBack(*call);
  }
}

}  // namespace lodgekv::server
