// Recovery that touches no leaf: there is a backup of the top layer. Everything is examined when
// it is touched first (first_touch.h), or by the sweep (sweep.h). Logs are read, but their entries
// wait for their leaves (pending_log.h).
#include <algorithm>

#include "index/sptree/recovery.h"

namespace lodgekv::sptree {

// Without a backup each first touch would walk from the first leaf. Little is gained in a small
// tree, and too little space is left in a full pool. The laboratory kills small trees.
// Leaves that may have no buffers must have all at once.
template <class C>
bool Recovery<C>::StartsAtOnce() const {
  if (!tree_.parameters.backup || tree_.backup.lost() || tree_.backup.entries() == 0) return false;
  if (HasLogs() && !(tree_.buffers() && tree_.parameters.lazy_replay)) return false;
  const bool traced = medium_.tracer() != nullptr && !pool_.was_clean();
  return (tree_.bnodes.total_units() > kFewLeaves || traced) && !pool_.tight();
}

template <class C>
bool Recovery<C>::HasLogs() const {
  const auto arenas = tree_.log.arenas();
  return std::any_of(arenas.begin(), arenas.end(),
                     [](const pmem::UnitArena* arena) { return arena->total_units() != 0; });
}

template <class C>
absl::Status Recovery<C>::RunAtOnce() {
  const bool logs = HasLogs();
  pmem::Offset first;
  absl::Status status = FindFirst(&first);
  if (status.ok()) status = intents_.Mark(Intents::LeavesMarked::kLater);
  if (status.ok() && logs) status = tree_.pending_log.Read(context_);
  if (status.ok()) status = tree_.first_touch.Begin(first, settles_);
  if (!status.ok()) return status;
  pool_.BeginUse();
  if (logs) status = tree_.pending_log.Keep();
  if (!status.ok()) return status;
  if (tree_.buffers()) tree_.log.TakeOwnChunks();
  report_.log_entries_dropped = tree_.pending_log.dropped();
  report_.repairs = tree_.log.repaired_headers();
  tree_.sweep.Begin();
  return absl::OkStatus();
}

template class Recovery<Fixed64Codec>;
template class Recovery<BytesCodec>;

}  // namespace lodgekv::sptree
