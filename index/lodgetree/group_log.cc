// The log entries of a group: one fence group, or several where it need not be atomic.
#include "index/lodgetree/group_write.h"
#include "index/node/log_fence.h"
#include "index/node/record.h"

namespace lodgekv::lodgetree {

// Completes the operation's record; returns the checksum of the one that its entry names.
template <class C>
uint32_t GroupWrite<C>::FinishEntry(Op& pending) const {
  if constexpr (C::kRecords) {
    if (pending.staged.record.offset != 0) {
      FinishRecord(parts_.pool, pending.staged.record, pending.sequence);
    }
    if (!pending.tombstone && !parts_.codec.inline_pairs())
      pending.result->version = pending.sequence;
    if (pending.tombstone && C::IsRecord(pending.staged.pair.value)) {
      return ViewRecord(parts_.pool, C::RecordOf(pending.staged.pair.value)).crc;
    }
  }
  return pending.staged.record.crc;
}

// How many of so many entries go to the open log, as one fence group: all of an atomic group. Those
// of another may go on in the next log, whose header is durable already.
template <class C>
unsigned GroupWrite<C>::BeginPart(unsigned entries) {
  if (parts_.log.OpenRoom() == 0) (void)parts_.log.ReserveInOneLog(1, pmem::ReservePolicy::kUse);
  return std::min(entries, parts_.log.OpenRoom());
}

// Numbers the entries and completes their records. All records come first, and the log some time
// after them: an entry right behind the flush of a record would wait for it.
template <class C>
void GroupWrite<C>::FinishEntries() {
  unsigned entries = ExtraEntries();
  for (const Op& pending : group_) entries += pending.apply ? 1 : 0;
  entries_ = entries;
  if (entries == 0) return;
  if (group_.size() > 1) parts_.log.PrepareNext(entries, options_.atomic);
  const bool early =
      group_.size() > 1 && parts_.medium.Canary("lodgetree.write.numbers_before_locks");
  uint64_t sequence = early ? group_[0].sequence : parts_.pool.TakeSequence(entries);
  for (Op& pending : group_) {
    if (!pending.apply) continue;
    pending.sequence = sequence++;
    pending.record_crc = FinishEntry(pending);
  }
  applied_sequence_ = sequence;
}

// Returns the log that holds the applied index, if one is given.
//
// The group is in the order of keys, its entries are not: each of the logs that they fill gets keys
// of the group's whole range. Neighbours in one log would be in one node, of which the emptying of
// old logs splits one leaf at a time: it would take more rounds, with their fences.
template <class C>
uint32_t GroupWrite<C>::AppendToLog() {
  unsigned entries = entries_;
  if (entries == 0) return AppendLog::kNoLog;
  const size_t logs = options_.atomic ? 1 : group_.size() / parts_.parameters.log_entries + 1;
  unsigned left = 0;
  for (size_t first = 0; first < logs; ++first) {
    for (size_t i = first; i < group_.size(); i += logs) {
      Op& pending = group_[i];
      if (!pending.apply) continue;
      if (left == 0) left = group_.size() == 1 ? entries : BeginPart(entries);
      --entries;
      const auto op = pending.tombstone ? LogOp::kDelete : LogOp::kPut;
      pending.log =
          parts_.log.Append(pending.staged.pair, pending.sequence, op, --left, pending.record_crc);
    }
  }
  uint32_t applied_log = AppendLog::kNoLog;
  if (options_.applied_index.has_value()) {
    const Pair pair{*options_.applied_index, 0};
    applied_log = parts_.log.Append(pair, applied_sequence_, LogOp::kAppliedIndex, 0, 0);
  }
  EndAppend(parts_.medium);
  return applied_log;
}

template class GroupWrite<Fixed64Codec>;
template class GroupWrite<BytesCodec>;

}  // namespace lodgekv::lodgetree
