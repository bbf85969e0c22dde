// Hitchhiked subnode reclamation (SSTree III-C, Fig. 5); its crash table: README.md, Subnode
// reclamation.
#include "index/pmem/crash_point.h"
#include "index/sstree/leaf_writer.h"

namespace lodgekv::sstree {

// Step 1. Only the last subnode is reclaimed: its next pointer, which becomes the free tag, leads
// nowhere.
template <class C>
void LeafWriter<C>::TagLast(LeafChange* change) {
  if (change->subnodes < 2 || change->fresh) return;
  const unsigned last = change->subnodes - 1;
  if (SlotsOf(change->valid, last) != 0) return;
  const bool emptied = SlotsOf(change->old, last) != 0;
  if (change->valid != 0 && (!emptied || !tree_.parameters.reclamation)) return;
  change->before_last = search_.SubnodeOf(*change, last - 1);
  change->last = tree_.NextOf(*change->before_last);
  if (tree_.medium.Canary("sstree.reclaim.tag_last")) return;
  tree_.medium.Store(change->last->next, media::kFree);
  tree_.medium.FlushLine(change->last);
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.reclaim.1");
}

// Step 3. The store that cuts the subnode off is part of the commit, or not fenced here: the
// subnode is freed once it is durable, with the thread's next fence.
template <class C>
void LeafWriter<C>::CutOffLast(Worker& worker, LeafChange* change) {
  worker.counters.Add(WorkerCounters::kReclaimedSubnodes);
  const pmem::Offset last = tree_.pool.OffsetOf(change->last);
  if (CutsWithCommit(*change)) {
    if (!tree_.medium.failed()) tree_.subnodes.Free(last);
    return;
  }
  tree_.medium.Store(change->before_last->next, media::End());
  tree_.medium.FlushLine(change->before_last);
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.reclaim.3");
  if (tree_.medium.Canary("sstree.reclaim.free_at_once")) return tree_.subnodes.Free(last);
  worker.cut_off.push_back({last, change->before_last, ThreadNumber()});
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::sstree
