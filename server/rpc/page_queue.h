// Scans that are queued for their next page, or for room in the admission for it.
#pragma once

#include <cstdint>

#include "index/engine.h"
#include "server/rpc/call_kinds.h"
#include "server/rpc/call_list.h"
#include "server/rpc/scan_pager.h"
#include "server/rpc/work_queue.h"

namespace lodgekv::server {

class PageQueue {
 public:
  // How often a page that waits for room is tried again: this thread is not notified when another
  // one releases some.
  static constexpr int64_t kRoomTickMs = 10;

  void Add(PageCall& call);
  // No page can be served now.
  bool empty() const { return pages_.empty(); }
  bool none_waits_for_room() const { return waiting_.empty(); }
  // Serves a few pages. stopping: no page waits for room any more.
  void Serve(Engine& engine, bool stopping);

 private:
  WorkQueue<PageCall, 3> pages_;
  CallList<PageCall> waiting_;
  PageMessage message_;  // reused for all pages
};

}  // namespace lodgekv::server
