// Closed logs in order of how long they have waited: decides which is emptied next.
//
// A log enters its thread's list when it is closed, and leaves it when it is freed: two short locks
// of a list in L puts. NextToEmpty compares the first logs of all lists, and moves the one that it
// takes to the end. So two threads take different logs, and one that cannot be emptied yet is met
// again only after all others.
#include <mutex>

#include "index/node/append_log.h"

namespace lodgekv {

void AppendLog::AddClosed(uint32_t id) {
  ClosedList& list = closed_.Current();
  const std::lock_guard lock(list.mutex);
  LogAt(id).list = &list;
  LinkLast(list, id);
}

void AppendLog::RemoveClosed(uint32_t id) {
  ClosedList& list = *LogAt(id).list;
  const std::lock_guard lock(list.mutex);
  Unlink(list, id);
  LogAt(id).list = nullptr;
}

bool AppendLog::NextToEmpty(OldLog* old) {
  ClosedList* list = &kept_;
  closed_.ForEach([&list](ClosedList& other) {
    const auto oldest = [](const ClosedList& l) {
      return l.oldest.load(std::memory_order_relaxed);
    };
    if (oldest(other) < oldest(*list)) list = &other;
  });
  const std::lock_guard lock(list->mutex);
  const uint32_t id = list->first;
  if (id == kNoLog) return false;
  const Log& log = LogAt(id);
  *old = {id,
          {log.offset.load(std::memory_order_relaxed), log.version.load(std::memory_order_relaxed),
           log.entries.load(std::memory_order_relaxed)}};
  Unlink(*list, id);
  LinkLast(*list, id);
  return true;
}

bool AppendLog::IsLive(const OldLog& old) const {
  return ValidOf(old.id).load(std::memory_order_acquire) != 0 &&
         LogAt(old.id).version.load(std::memory_order_relaxed) == old.found.version;
}

// All below is called under the list's mutex.
void AppendLog::LinkLast(ClosedList& list, uint32_t id) {
  Log& log = LogAt(id);
  log.since = pool_.PeekSequence();
  log.before = list.last;
  log.behind = kNoLog;
  if (list.last == kNoLog) {
    list.first = id;
    list.oldest.store(log.since, std::memory_order_relaxed);
  } else {
    LogAt(list.last).behind = id;
  }
  list.last = id;
}

void AppendLog::Unlink(ClosedList& list, uint32_t id) {
  const Log& log = LogAt(id);
  if (log.behind == kNoLog) {
    list.last = log.before;
  } else {
    LogAt(log.behind).before = log.before;
  }
  if (log.before != kNoLog) {
    LogAt(log.before).behind = log.behind;
    return;
  }
  list.first = log.behind;
  const uint64_t oldest = list.first == kNoLog ? UINT64_MAX : LogAt(list.first).since;
  list.oldest.store(oldest, std::memory_order_relaxed);
}

}  // namespace lodgekv
