// What recovery finds on the medium: subnodes, heads, and what is in the leaves.
#include <algorithm>
#include <bit>

#include "index/sstree/recovery.h"

namespace lodgekv::sstree {

namespace {
constexpr size_t kHeadsAhead = 4;

bool HoldsAnything(const media::Subnode& subnode) {
  const auto* words = reinterpret_cast<const pmem::Word*>(&subnode);
  return std::any_of(words, words + sizeof(subnode) / sizeof(pmem::Word),
                     [](const pmem::Word& word) { return word.LoadRelaxed() != 0; });
}
}  // namespace

template <class C>
absl::Status Recovery<C>::FindSubnodes() {
  chunks_ = tree_.subnodes.OwnChunks();
  parts_.resize(chunks_.size());
  PhaseProgress progress(context_.progress, "subnodes", chunks_.size());
  return Parallel(chunks_.size(), [&](size_t i) {
    absl::Status status = pool_.contents().EnsureVerified(chunks_[i].begin);
    if (status.ok()) status = LookAtSubnodes(chunks_[i], &parts_[i]);
    progress.Add(1);
    return status;
  });
}

// Marks those that a next pointer refers to. A free tag that was not flushed must be durable before
// anything is answered: the pairs of a dropped leaf would come back with it. The word of a head
// that was dropped without pairs is zero. Where words tear, that tag must be durable, too, before
// the space is used again: another word may survive there and the tag not.
template <class C>
absl::Status Recovery<C>::LookAtSubnodes(const pmem::Chunk& chunk, Part* part) {
  absl::Status status;
  const bool flushes = settles_ && !medium_.Canary("sstree.recovery.tags_not_flushed");
  bool flushed = false;
  tree_.subnodes.VisitUnits(chunk, [&](pmem::Offset offset) {
    const media::Subnode* subnode = tree_.SubnodeAt(offset);
    const uint64_t word = subnode->next.LoadRelaxed();
    if (word == media::kFree) {
      const bool used = subnode->word.LoadRelaxed() != 0 ||
                        (medium_.strict_order() && HoldsAnything(*subnode));
      if (flushes && used) {
        medium_.FlushLine(subnode);
        flushed = true;
      }
      return;
    }
    ++part->subnodes;
    if (word == media::End() || !status.ok()) return;
    pmem::Offset next;
    if (!ReadChecked(word, &next)) {
      status = Damaged("a next pointer with wrong check bits in the subnode", offset);
    } else if (tree_.subnodes.Mark(next) != pmem::UnitArena::MarkResult::kMarked) {
      status =
          Damaged("a next pointer to no subnode, or to another list's, in the subnode", offset);
    }
  });
  if (flushed) medium_.Fence();
  return status;
}

// Marks them too.
template <class C>
absl::Status Recovery<C>::FindHeads() {
  return Parallel(chunks_.size(), [&](size_t i) {
    tree_.subnodes.VisitUnits(chunks_[i], [&](pmem::Offset offset) {
      if (tree_.SubnodeAt(offset)->next.LoadRelaxed() == media::kFree) return;
      if (tree_.subnodes.Mark(offset) == pmem::UnitArena::MarkResult::kMarked) {
        parts_[i].heads.push_back(offset);
      }
    });
    return absl::OkStatus();
  });
}

template <class C>
absl::Status Recovery<C>::LookThrough() {
  PhaseProgress progress(context_.progress, "leaves", chunks_.size());
  absl::Status status = Parallel(chunks_.size(), [&](size_t i) {
    Part& part = parts_[i];
    if (part.heads.empty()) return absl::OkStatus();
    std::vector<Leaf*> leaves(part.heads.size());
    tree_.leaves.Make(leaves);
    for (size_t n = 0; n < part.heads.size(); ++n) {
      if (n + kHeadsAhead < part.heads.size()) {
        PrefetchLines(pool_.At<char>(part.heads[n + kHeadsAhead]), pmem::kBlockBytes);
      }
      const absl::Status looked = LookAtLeaf(part.heads[n], leaves[n], &part);
      if (!looked.ok()) return looked;
    }
    progress.Add(1);
    return absl::OkStatus();
  });
  uint64_t subnodes = 0;
  uint64_t reached = 0;
  for (const Part& part : parts_) {
    subnodes += part.subnodes;
    reached += part.reached;
    report_.leaves_scanned += part.heads.size();
  }
  if (status.ok() && subnodes != reached) {
    status = Damaged("a list of subnodes that leads back to itself in the pool", 0);
  }
  return status;
}

template <class C>
absl::Status Recovery<C>::LookAtLeaf(pmem::Offset head, Leaf* leaf, Part* part) {
  List list;
  absl::Status status = ReadList(head, &list, part);
  if (!status.ok()) return status;
  if (list.valid == 0) {
    part->empty.push_back(head);
    tree_.leaves.Free(leaf);
    return absl::OkStatus();
  }
  leaf->place = LeafPlace(head, list.count, SlotsOf(list.valid, 0));
  FoundLeaf found{.least = {}, .greatest = {}, .leaf = nullptr};
  for (uint64_t left = list.valid; left != 0; left &= left - 1) {
    const auto bit = static_cast<unsigned>(std::countr_zero(left));
    status = LookAtSlot(list, bit / kSubnodeSlots, bit % kSubnodeSlots, leaf, &found, part);
    if (!status.ok()) return status;
  }
  part->keys += static_cast<uint64_t>(std::popcount(list.valid));
  for (unsigned i = 0; i < list.count; ++i) {
    if ((SlotsOf(list.valid, i) & ~tree_.usable_slots()) != 0) tree_.longer_leaves = true;
  }
  part->leaves.push_back(found);
  return absl::OkStatus();
}

// A free subnode at the end: a reclamation was cut short. If the word still has its slots, it has
// not happened, and the subnode is the end of the list again; otherwise it is finished.
template <class C>
absl::Status Recovery<C>::ReadList(pmem::Offset head, List* list, Part* part) {
  if (!ReadValid(tree_.SubnodeAt(head)->word.LoadRelaxed(), &list->valid)) {
    return Damaged("a damaged word in the head subnode", head);
  }
  for (pmem::Offset at = head;;) {
    const media::Subnode* subnode = tree_.SubnodeAt(at);
    if (list->count == kMaxSubnodes) return Damaged("a list of too many subnodes from", head);
    list->at[list->count++] = subnode;
    const uint64_t word = subnode->next.LoadRelaxed();
    if (word == media::kFree) {
      part->broken.push_back({head, at});
      break;
    }
    ++part->reached;
    if (word == media::End()) break;
    const pmem::Offset next = word & kCheckedMask;
    absl::Status status = pool_.contents().EnsureVerified(next);
    if (!status.ok()) return status;
    const bool free = tree_.SubnodeAt(next)->next.LoadRelaxed() == media::kFree;
    const bool in_use =
        list->count < kMaxSubnodes && list->valid >> list->count * kSubnodeSlots != 0;
    if (free && (!in_use || medium_.Canary("sstree.recovery.never_undone"))) {
      part->broken.push_back({head, at});
      tree_.subnodes.Unmark(next);
      break;
    }
    at = next;
  }
  if (list->count < kMaxSubnodes && list->valid >> list->count * kSubnodeSlots != 0) {
    return Damaged("a word with slots of subnodes that the list does not have in the head", head);
  }
  return absl::OkStatus();
}

template <class C>
absl::Status Recovery<C>::LookAtSlot(const List& list, unsigned number, unsigned slot, Leaf* leaf,
                                     FoundLeaf* found, Part* part) {
  const Pair pair = SlotPair(*list.at[number], slot);
  const C& codec = tree_.codec;
  const pmem::Offset where = pool_.OffsetOf(list.at[number]);
  if constexpr (C::kRecords) {
    if (!codec.PairIsSound(pair)) {
      return Damaged("a pair whose check bits do not fit in the subnode", where);
    }
    if (C::IsRecord(pair.value)) {
      const pmem::Offset record = C::RecordOf(pair.value);
      const auto marked = tree_.slab.Mark(record);
      if (marked == pmem::UnitArena::MarkResult::kTwice) {
        part->repeated.push_back(record);
      } else if (marked != pmem::UnitArena::MarkResult::kMarked) {
        return Damaged("a pair whose record is none in the subnode", where);
      }
    }
  }
  const uint16_t hash = codec.HashOf(pair);
  if (number == 0) {
    leaf->fingerprints[slot] = FingerprintOf(hash);
  } else {
    leaf->filter |= Leaf::FilterBits(hash);
    const auto* tags = reinterpret_cast<const uint8_t*>(list.at[number - 1]->fingerprints);
    // A pool that was closed in order has a checksum over its leaves instead.
    if (settles_ && tags[slot] != FingerprintOf(hash)) {
      return Damaged("a fingerprint that is not its key's before the subnode", where);
    }
  }
  if (found->leaf == nullptr) {
    *found = {pair, pair, leaf};
    return absl::OkStatus();
  }
  if (Ties(pair, *found) && (!KeyFits(pair) || !KeyFits(found->least) || !KeyFits(found->greatest)))
    return Damaged("a pair whose record has another key in the subnode", where);
  if (codec.Less(pair, found->least)) found->least = pair;
  if (codec.Less(found->greatest, pair)) found->greatest = pair;
  return absl::OkStatus();
}

template class Recovery<Fixed64Codec>;
template class Recovery<BytesCodec>;

}  // namespace lodgekv::sstree
