// Scans that wait for their next page to be read, or for room for it.
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
  // How late a page that waits for room may be looked at: nothing tells this thread of the room
  // that another one made.
  static constexpr int64_t kRoomTickMs = 10;

  void Add(PageCall& call);
  // None could be served now.
  bool empty() const { return pages_.empty(); }
  bool none_waits_for_room() const { return waiting_.empty(); }
  // A few pages. stopping: none waits for room any more.
  void Serve(Engine& engine, bool stopping);

 private:
  WorkQueue<PageCall, 3> pages_;
  CallList<PageCall> waiting_;
  PageMessage message_;  // where pages are made
};

}  // namespace lodgekv::server
