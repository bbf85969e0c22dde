#include "server/rpc/page_queue.h"

namespace lodgekv::server {
namespace {

// Pages between two looks at what else is ready: each may take a millisecond.
constexpr int kPagesPerTurn = 4;
// A list of the queue beside those of every queue.
constexpr size_t kLaterPages = 2;

}  // namespace

void PageQueue::Add(PageCall& call) {
  // A scan of a few items is its first page.
  const size_t list = ListOf(call);
  pages_.Add(call, list == kOfMuch && !call.IsFirstPage() ? kLaterPages : list);
}

void PageQueue::Serve(Engine& engine, bool stopping) {
  // As many of those that wait for room as are served, so that a turn stays short.
  for (int i = 0; i < kPagesPerTurn && !waiting_.empty(); ++i) {
    pages_.Add(*waiting_.PopFront(), kLaterPages);
  }
  for (int i = 0; i < kPagesPerTurn && !pages_.empty(); ++i) {
    PageCall* call = pages_.Take();
    if (!call->ServePage(engine, message_, stopping)) waiting_.PushBack(*call);
  }
}

}  // namespace lodgekv::server
