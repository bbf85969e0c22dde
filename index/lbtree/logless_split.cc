// The logless leaf split (LB+-Tree 3.3, Alg. 3; with distributed headers 3.4).
//
//  step                                          after a crash           recovery
//  1  the right leaf, whole; in the left one the nothing leads to the    the mark frees the right
//     sibling word and the headers of blocks 2   right leaf; unused      leaf
//     to m that alt does not use; fence          words hold anything
//  2  word 0 of the left leaf's first header:    one leaf or two         nothing
//     the moved slots do not count, alt is
//     turned over; fence
//  3  if the new pair belongs to the left leaf:  the split without the   nothing
//     an insert of its own                       pair
//
// Step 3 is not the paper's: its Alg. 3 writes the pair into a slot whose entry has moved but
// counts in the durable header until step 2, so a crash could lose that entry (the authors' code
// inserts by a second NAW, as here).
#include <algorithm>
#include <bit>
#include <cstring>

#include "index/lbtree/split_work.h"
#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

template <class C>
void LbTree<C>::LoadHeaders(SplitWork* work) const {
  for (unsigned b = 0; b < blocks_; ++b) {
    work->left_headers[b] = LoadHeader(HeaderWords(work->left, b, work->alt));
  }
}

// By the left leaf's headers; they lose what moves. False: the leaf's keys are damaged so that no
// border within `bounds` divides them.
template <class C>
bool LbTree<C>::Divide(const Key& key, const Bounds& bounds, SplitWork* work) {
  for (unsigned b = 0; b < blocks_; ++b) {
    for (uint32_t slots = work->left_headers[b].slots(); slots != 0; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      work->entries[work->count++] = {SlotPair(work->left[b], slot), static_cast<uint8_t>(b),
                                      static_cast<uint8_t>(slot)};
    }
  }
  auto* const begin = work->entries;
  std::sort(begin, begin + work->count,
            [&](const auto& x, const auto& y) { return codec_.Less(x.pair, y.pair); });
  if (!ChooseBorder(key, bounds, work)) return false;
  for (unsigned i = work->stay; i < work->count; ++i) {
    const auto& entry = work->entries[i];
    work->moved[work->moved_count++] = entry.pair;
    work->left_headers[entry.block].Clear(uint32_t{1} << entry.slot);
  }
  return true;
}

// From the middle outwards: a damaged record may have any key.
template <class C>
bool LbTree<C>::ChooseBorder(const Key& key, const Bounds& bounds, SplitWork* work) {
  const auto* const entries = work->entries;
  const unsigned half = work->count / 2;
  for (unsigned away = 0; away < half; ++away) {
    for (const unsigned at : {half - away, half + away}) {
      work->separator = codec_.Between(entries[at - 1].pair, entries[at].pair, texts_);
      if (!Divides(bounds, work->separator)) {
        C::Discard(texts_, work->separator);
        continue;
      }
      work->stay = at;
      work->goes_right = C::CompareToKey(work->separator, key) <= 0;
      return true;
    }
  }
  return false;
}

// What the leaf of `key`, which is locked, covers; only where keys can be damaged unseen. Inside an
// EpochGuard: the leaf's lock does not keep its neighbours.
template <class C>
typename LbTree<C>::Bounds LbTree<C>::BoundsOf(const Key& key) const {
  if (!C::kRecords) return {};
  uint64_t snapshot;
  typename Inner::Place place;
  (void)tree_.DescendToPlace(&key, Inner::Seek::kCovering, &snapshot, &place);
  return place.bounds;
}

template <class C>
bool LbTree<C>::Divides(const Bounds& bounds, Separator separator) {
  return !C::kRecords || (C::Compare(separator, bounds.low) > 0 &&
                          (!bounds.bounded || C::Compare(separator, bounds.high) < 0));
}

// The pairs go to the end of each block, so that the next inserts find room beside the headers.
template <class C>
void LbTree<C>::FillImage(std::span<const Pair> pairs, uint64_t sibling, LeafImage* image) const {
  constexpr unsigned kBlockWords = pmem::kBlockBytes / sizeof(uint64_t);
  constexpr unsigned kTailWord = offsetof(media::Block, tail) / sizeof(uint64_t);
  std::memset(image->words, 0, leaf_bytes());
  image->words[kTailWord] = sibling;
  for (unsigned b = 0; b < blocks_; ++b) {
    uint64_t* block = image->words + b * kBlockWords;
    uint32_t& lines = image->lines[b];
    lines = b == 0 ? 1u | 1u << (kBlockLines - 1) : 1u;
    Header header{};
    const size_t end = pairs.size() * (b + 1) / blocks_;
    unsigned slot = parameters_.leaf_slots;
    for (size_t i = pairs.size() * b / blocks_; i < end; ++i) {
      const Pair pair = pairs[i];
      --slot;
      block[2 + 2 * slot] = pair.key;
      block[3 + 2 * slot] = pair.value;
      header.Set(slot, FingerprintOf(codec_.HashOf(pair)));
      lines |= 1u << LineOfSlot(slot);
    }
    block[0] = header.words[0];
    block[1] = header.words[1];
  }
}

template <class C>
void LbTree<C>::StoreRightLeaf(const SplitWork& work) {
  LeafImage image;
  FillImage({work.moved, work.moved_count}, work.left[0].tail[work.alt ? 1 : 0].LoadRelaxed(),
            &image);
  char* right = pool_.At<char>(work.right);
  image.ForEachLine(blocks_, [&](size_t at, const char* line) {
    medium_.StoreBulk(right + at, line, pmem::kLineBytes);
  });
}

// Lines that hold something, of a leaf that only its writer knows.
template <class C>
uint32_t LbTree<C>::LinesInUse(const media::Block* leaf) const {
  uint32_t lines = LeafLine(0, kBlockLines - 1);
  for (unsigned b = 0; b < blocks_; ++b) {
    lines |= LeafLine(b, 0);
    for (uint32_t slots = HeaderOf(leaf, b).slots(); slots != 0; slots &= slots - 1) {
      lines |= LeafLine(b, LineOfSlot(static_cast<unsigned>(std::countr_zero(slots))));
    }
  }
  return lines;
}

template <class C>
void LbTree<C>::FlushLines(const media::Block* leaf, uint32_t lines) {
  const char* at = reinterpret_cast<const char*>(leaf);
  for (; lines != 0; lines &= lines - 1) {
    medium_.FlushLine(at + static_cast<unsigned>(std::countr_zero(lines)) * pmem::kLineBytes);
  }
}

// What step 1 writes in the left leaf, all of it unused so far. Returns the lines.
template <class C>
uint32_t LbTree<C>::StoreLeftLeaf(SplitWork* work) {
  work->left_headers[0].FlipAlt();
  media::Word& sibling = work->left[0].tail[work->alt ? 0 : 1];
  if (work->in_group || !medium_.Canary("lbtree.split.sibling_after_commit")) {
    medium_.Store(sibling, CheckedWord(work->right));
  }
  uint32_t lines = LeafLine(0, kBlockLines - 1);
  for (unsigned b = 1; b < blocks_; ++b) {
    const bool stays = work->in_group ? medium_.Canary("lbtree.group.headers_stay")
                                      : medium_.Canary("lbtree.split.headers_stay");
    if (stays) break;
    media::Word* unused = HeaderWords(work->left, b, !work->alt);
    medium_.Store(unused[1], work->left_headers[b].words[1]);
    medium_.Store(unused[0], work->left_headers[b].words[0]);
    lines |= LeafLine(b, HeaderLine(b, !work->alt));
  }
  return lines;
}

// Alg. 3 line 23: the pair goes to the slot of a moved entry, which still counts.
template <class C>
void LbTree<C>::StageAsInThePaper(SplitWork* work, Pair pair) {
  for (unsigned i = work->stay; i < work->count && !work->goes_right && !work->inserted; ++i) {
    const auto& entry = work->entries[i];
    if (entry.block != 0) continue;
    StoreSlot(work->left[0], entry.slot, pair);
    medium_.FlushLine(&work->left[0].slots[entry.slot]);
    work->left_headers[0].Set(entry.slot, FingerprintOf(codec_.HashOf(pair)));
    medium_.Store(work->left[0].header[1], work->left_headers[0].words[1]);
    work->inserted = true;
  }
}

// What a split costs that has a log: there the leaf is durable a second time before anything in it
// changes. The space of the right leaf stands for that log's.
template <class C>
void LbTree<C>::WriteLeafAside(const SplitWork& work) {
  char* aside = pool_.At<char>(work.right);
  medium_.StoreBulk(aside, work.left, leaf_bytes());
  medium_.Persist(aside, leaf_bytes());
}

template <class C>
void LbTree<C>::CommitSplit(const Locked& locked, const Key& key, const SplitWork& work) {
  LODGEKV_CRASH_POINT(medium_, "lbtree.split.1");
  medium_.Fence();
  BeginCommit(locked, work.left[0].header[0]);
  const uint64_t commit = work.left_headers[0].words[0];
  if (medium_.Canary("lbtree.split.two_words")) {
    medium_.Store(work.left[0].header[0], commit ^ media::kAlt);  // then alt by itself
  }
  medium_.Store(work.left[0].header[0], commit);
  medium_.FlushLine(work.left);
  if (medium_.Canary("lbtree.split.sibling_after_commit")) {
    medium_.Store(work.left[0].tail[work.alt ? 0 : 1], CheckedWord(work.right));
    medium_.FlushLine(work.left[0].tail);
  }
  LODGEKV_CRASH_POINT(medium_, "lbtree.split.2");
  medium_.Fence();
  auto* parent = tree_.LockParent(key);
  BeginPublish(locked);
  const typename Inner::Child child{work.separator, LeafAt(work.right)};
  tree_.InsertAndUnlock(parent, key, {&child, 1});
  EndPublish(locked);
  LODGEKV_CRASH_POINT(medium_, "lbtree.split.3");
}

// Splits the locked leaf and puts the pair where it belongs.
template <class C>
Outcome LbTree<C>::Split(Worker& worker, Locked& locked, const Key& key, Pair pair) {
  SplitWork work;
  work.left = locked.leaf;
  work.alt = AltOf(locked.leaf);
  work.right = TakeLeaf(worker);
  if (work.right == 0) return Outcome::kPoolFull;
  LoadHeaders(&work);
  bool divided;
  {
    const EpochGuard guard;
    divided = Divide(key, BoundsOf(key), &work);
  }
  if (!divided) {
    leaves_.Free(work.right);
    return Outcome::kDataLoss;
  }
  if (work.goes_right) work.moved[work.moved_count++] = pair;
  if (!parameters_.logless_split) WriteLeafAside(work);
  StoreRightLeaf(work);
  const media::Block* right = LeafAt(work.right);
  if (!medium_.Canary("lbtree.split.leaf_not_flushed")) FlushLines(right, LinesInUse(right));
  FlushLines(work.left, StoreLeftLeaf(&work));
  if (medium_.Canary("lbtree.split.reuse_at_once")) StageAsInThePaper(&work, pair);
  CommitSplit(locked, key, work);
  worker.counters.Add(WorkerCounters::kLeafSplits);
  if (!work.goes_right && !work.inserted) (void)Insert(worker, locked, pair);
  return Outcome::kOk;
}

template <class C>
pmem::Offset LbTree<C>::TakeLeaf(Worker& worker) {
  if (worker.spare_leaves.empty()) return leaves_.Allocate(leaf_reserve_);
  const pmem::Offset leaf = worker.spare_leaves.back();
  worker.spare_leaves.pop_back();
  return leaf;
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
