// The entries of old logs, one after the other, for a tree that empties them (append_log.h): the
// logs that have waited longest, each from its first entry to its last, over as many calls as
// needed.
//
// Used by one thread.
#pragma once

#include <string>

#include "index/node/append_log.h"
#include "index/node/codec.h"
#include "index/node/epoch.h"
#include "index/node/record.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"

namespace lodgekv {

class OldLogEntries {
 public:
  // Of the log that the last entry is in; kNoLog: there was none.
  uint32_t id() const { return log_.id; }

  // Goes on in the log, or in the next one, for which `chosen(id)` is called. False: there is none.
  template <class Chosen>
  bool Next(AppendLog& logs, FoundEntry* entry, Chosen chosen) {
    for (unsigned looked = 0;;) {
      const bool live = log_.id != AppendLog::kNoLog && logs.IsLive(log_);
      while (live && examined_ < log_.found.entries) {
        if (logs.ReadOld(log_, examined_++, entry)) return true;
      }
      if (looked++ == kLogsAtOnce || !logs.NextToEmpty(&log_)) return false;
      examined_ = 0;
      chosen(log_.id);
    }
  }

 private:
  static constexpr unsigned kLogsAtOnce = 4;  // that were free when examined

  AppendLog::OldLog log_;
  unsigned examined_ = 0;
};

// The key that an old entry is of; its text lies in `text`. False: there is none, or the entry is
// dead and its record was reused, as the checksum shows.
template <class C>
bool KeyOfLogEntry(const pmem::Pool& pool, const pmem::RecordSlab& slab, const C& codec,
                   const FoundEntry& entry, std::string* text, typename C::Key* key) {
  if (entry.op == LogOp::kAppliedIndex) return false;
  if constexpr (C::kRecords) {
    const EpochGuard guard;
    char scratch[8];
    if (C::IsRecord(entry.pair.value)) {
      RecordView view;
      if (!VerifyRecord(pool, slab, C::RecordOf(entry.pair.value), &view)) return false;
      if (view.crc != entry.record_crc) return false;
      text->assign(view.key);
    } else {
      text->assign(codec.KeyText(entry.pair, scratch));
    }
    *key = C::MakeKey(*text);
  } else {
    *key = C::KeyOfWord(entry.pair.key);
  }
  return true;
}

}  // namespace lodgekv
