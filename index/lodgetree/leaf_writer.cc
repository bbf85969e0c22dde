#include "index/lodgetree/leaf_writer.h"

#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

template <class C>
void LeafWriter<C>::WriteUpdates(LeafWork& work) {
  for (unsigned i = 0; i < work.update_count; ++i) {
    const unsigned slot = work.update_slots[i];
    if ((work.moved >> slot & 1) != 0) continue;  // written in the right leaf
    parts_.medium.Store(work.media->slots[slot].value, work.update_values[i]);
    work.lines |= uint32_t{1} << LineOfSlot(slot);
  }
}

// Everything that changes is in the leaf's first line: fingerprints, then the commit word, then W.
// If a line may tear, a fence is needed between the last two: the caller then owes W
// (open_commits.h).
template <class C>
[[gnu::flatten]] void LeafWriter<C>::StoreCommits(std::span<LeafWork> works, Pass pass) {
  const bool second = pass == Pass::kSecond;
  for (LeafWork& work : works) {
    if (!second || work.second_commit) StoreCommit(work, pass);
  }
}

template <class C>
void LeafWriter<C>::CommitSecond() {
  Round<C>& round = worker_.round;
  const uint32_t all_slots = parts_.parameters.AllSlots();
  for (LeafWork& work : round.Works()) {
    if (!work.second_commit) continue;
    WriteFresh(round.FreshOf(work), work, all_slots & ~work.NewBits());
    FlushLines(work);
  }
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.flush.4");
  parts_.medium.Fence();
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.flush.5");
  StoreCommits(round.Works(), Pass::kSecond);
  parts_.medium.Fence();
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::lodgetree
