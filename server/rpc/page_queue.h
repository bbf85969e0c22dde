// Scans that are queued for their next page, or for room in the admission for it.
#pragma once

#include <chrono>

#include "server/rpc/call_kinds.h"
#include "server/rpc/call_list.h"
#include "server/rpc/work_queue.h"

namespace lodgekv::server {

class PageQueue {
 public:
  // How often a page that waits for room is tried again: nothing tells when some is released.
  static constexpr std::chrono::milliseconds kRoomTick{10};

  void Add(PageCall& call);
  void AddWithoutRoom(PageCall& call) { waiting_.PushBack(call); }
  // No page can be read now.
  bool empty() const { return pages_.empty(); }
  bool none_waits_for_room() const { return waiting_.empty(); }
  // Queues some of those again that wait for room.
  void RetryWaiting();
  // The queue must not be empty.
  PageCall* Take() { return pages_.Take(); }

 private:
  WorkQueue<PageCall, 3> pages_;
  CallList<PageCall> waiting_;
};

}  // namespace lodgekv::server
