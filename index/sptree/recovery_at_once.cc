// Recovery that touches no leaf: there is a backup of the top layer, and no log. Everything is
// examined when it is touched first (first_touch.h), or by the sweep (sweep.h).
#include "index/sptree/recovery.h"

namespace lodgekv::sptree {

// Without a backup each first touch would walk from the first leaf. Little is gained in a small
// tree, and too little space is left in a full pool. The laboratory kills small trees.
template <class C>
bool Recovery<C>::StartsAtOnce() const {
  if (!tree_.parameters.backup || tree_.buffers()) return false;
  if (tree_.backup.lost() || tree_.backup.entries() == 0) return false;
  for (const pmem::UnitArena* arena : tree_.log.arenas()) {
    if (arena->total_units() != 0) return false;
  }
  const bool traced = medium_.tracer() != nullptr && !pool_.was_clean();
  return (tree_.bnodes.total_units() > kFewLeaves || traced) && !pool_.tight();
}

template <class C>
absl::Status Recovery<C>::RunAtOnce() {
  pmem::Offset first;
  absl::Status status = FindFirst(&first);
  if (status.ok()) status = intents_.Mark(Intents::LeavesMarked::kLater);
  if (!status.ok()) return status;
  status = tree_.first_touch.Begin(first, settles_);
  if (!status.ok()) return status;
  pool_.BeginUse();
  tree_.sweep.Begin();
  return absl::OkStatus();
}

template class Recovery<Fixed64Codec>;
template class Recovery<BytesCodec>;

}  // namespace lodgekv::sptree
