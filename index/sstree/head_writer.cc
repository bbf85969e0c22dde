// Changes of the head's first line; their crash table: README.md, One line.
#include "index/sstree/head_writer.h"

#include <bit>

#include "index/pmem/crash_point.h"

namespace lodgekv::sstree {

template <class C>
bool HeadWriter<C>::Insert(Worker& worker, Leaf* leaf, Pair pair, uint8_t fingerprint) {
  const uint32_t free_slots = tree_.usable_slots() & ~leaf->place.slots() & SlotsOfLine(0);
  if (free_slots == 0 || leaf->place.subnodes() == 0 || tree_.medium.strict_order()) return false;
  const auto slot = static_cast<unsigned>(std::countr_zero(free_slots));
  media::Subnode* head = tree_.HeadOf(*leaf);
  const uint64_t valid = (head->word.LoadRelaxed() & media::kValidMask) | uint64_t{1} << slot;
  if (tree_.medium.Canary("sstree.head.word_first")) {
    tree_.medium.Store(head->word, SealedWord(valid));
  }
  media::Slot& at = head->slots[slot];
  tree_.medium.StoreTwo(at.key, pair.key, at.value, pair.value);
  if (tree_.HasRecord(pair)) {
    LODGEKV_CRASH_POINT(tree_.medium, "sstree.head.1");
    tree_.medium.OrderStores();
  }
  Commit(worker, leaf, valid, [&] {
    leaf->place.AddSlot(slot);
    leaf->fingerprints[slot] = fingerprint;
  });
  return true;
}

// Readers look at the bits of overflow subnodes; those of the head they have in DRAM.
template <class C>
bool HeadWriter<C>::Remove(Worker& worker, Leaf* leaf, unsigned bit) {
  media::Subnode* head = tree_.HeadOf(*leaf);
  const uint64_t valid = head->word.LoadRelaxed() & media::kValidMask & ~(uint64_t{1} << bit);
  if (SlotsOf(valid, leaf->place.subnodes() - 1) == 0) return false;
  const bool in_head = bit < kSubnodeSlots;
  if (!in_head) tree_.commits.BeginCommit(*leaf, head->word);
  Commit(worker, leaf, valid, [&] {
    if (in_head) leaf->place.RemoveSlot(bit);
  });
  return true;
}

template <class C>
template <class Publish>
void HeadWriter<C>::Commit(Worker& worker, Leaf* leaf, uint64_t valid, Publish publish) {
  pmem::Medium& medium = tree_.medium;
  medium.PersistOrdered(tree_.HeadOf(*leaf)->word, SealedWord(valid),
                        [&] { LODGEKV_CRASH_POINT(medium, "sstree.head.2"); });
  tree_.FreeFenced(worker);
  LeafCommits<Leaf>::BeginPublish(*leaf);
  publish();
  tree_.commits.EndPublish(*leaf);
  LODGEKV_CRASH_POINT(medium, "sstree.head.3");
}

template class HeadWriter<Fixed64Codec>;
template class HeadWriter<BytesCodec>;

}  // namespace lodgekv::sstree
