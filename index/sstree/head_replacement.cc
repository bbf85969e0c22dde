// Head replacement (SSTree III-B, Fig. 3); its crash table: README.md, Head replacement.
#include <cstring>

#include "index/sstree/leaf_writer.h"

namespace lodgekv::sstree {

// A new subnode, free until the commit, comes before the head. Its word takes over the bits of the
// others; its fingerprints are those of the old head, which DRAM has.
template <class C>
bool LeafWriter<C>::ReplaceHead(Worker& worker, LeafChange* change) {
  const pmem::Offset offset = tree_.space.Take(worker.spare);
  if (offset == 0) return false;
  media::Subnode* head = tree_.SubnodeAt(offset);
  if (change->subnodes > 0) {
    change->filter |= FilterOf(*change->head, change->head_slots());
    uint64_t tags[2];
    std::memcpy(tags, change->fingerprints, sizeof(tags));
    tree_.medium.StoreTwo(head->fingerprints[0], tags[0], head->fingerprints[1], tags[1]);
    worker.counters.Add(WorkerCounters::kHeadReplacements);
  }
  if (change->staged) change->lines |= LeafLine(0, 0);
  change->lines <<= kSubnodeLines;
  change->valid <<= kSubnodeSlots;
  change->old <<= kSubnodeSlots;
  change->head = head;
  change->fresh = true;
  change->staged = true;
  ++change->subnodes;
  return true;
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::sstree
