// Scan: leaf by leaf, each leaf's pairs and those buffered for it under one version of the node,
// the buffered ones winning.
//
// The way through a node is not found anew for every leaf: as long as the node's version is the
// same, the next leaf is its neighbour there, and the node's high fence leads to the next node. A
// leaf that changed meanwhile is sought again by its bound, so no progress is lost.
//
// Pairs that lead to records are copied to a page inside an epoch, each record after its leaf's
// successor was fetched, so that the memory is read while the processor copies. The visitor is
// called outside of everything.
#include <algorithm>
#include <bit>
#include <string>

#include "absl/container/inlined_vector.h"
#include "index/lodgetree/lodgetree.h"
#include "index/node/epoch.h"
#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/node/scan_page.h"

namespace lodgekv::lodgetree {

namespace {

// Copied between two calls of the visitor, at most (one item may be larger), and looked at in one
// epoch: expired values are not copied.
constexpr size_t kPageBytes = size_t{1} << 20;
constexpr unsigned kPagePairs = 1u << 16;

// Of a record, fetched ahead at most; the rest is read in a row.
constexpr size_t kFetchedBytes = 256;
// As large as this thread's last scanned record was, are most likely the next ones.
thread_local size_t usual_record_bytes = 48;
// Leaves are fetched so far ahead; they usually hold so many pairs at least.
constexpr unsigned kLeavesAhead = 2;
constexpr unsigned kUsualPairs = 16;

// The smallest 8-byte key that is not below `bound`; false: there is none.
bool FixedBound(std::string_view bound, uint64_t* word) {
  *word = KeyWord(bound, 0);
  return bound.size() <= 8 || ++*word != 0;
}

}  // namespace

template <class C>
class LodgeTree<C>::Scanner {
 public:
  Scanner(const LodgeTree& tree, const ScanOptions& options)
      : tree_(tree), options_(options), left_(options.limit == 0 ? UINT64_MAX : options.limit) {}

  Outcome Run(ScanVisitor visitor) {
    if (!SetBounds()) return Outcome::kOk;
    if constexpr (C::kRecords) {
      return VisitRecords(visitor);
    } else {
      VisitWords(visitor);
      return Outcome::kOk;
    }
  }

 private:
  static constexpr unsigned kRoom = 32;  // for the pairs of a leaf, and for the wide search
  static_assert(kRoom > kLeafSlots && kRoom > kNodeSlots);

  // A leaf as it was at one moment.
  struct LeafCopy {
    alignas(64) uint64_t words[kRoom];  // of the pairs
    uint64_t values[kRoom];
    Pair buffered[kRoom];
    unsigned count;
    unsigned buffered_count;
    uint32_t deleted;  // bit i: buffered[i] is a delete
    uint32_t prefix;   // bytes that the node's keys share
    bool bounded;      // `high` is set
    bool last_of_node;
    bool last;  // of the range
    bool trim;  // found by `near`: may have pairs before it
    Key near;
    Separator low;
    Separator high;

    Pair PairAt(unsigned i) const { return {words[i], values[i]}; }
  };

  bool SetBounds();
  void Collect(uint64_t wanted, LeafCopy* copy);
  void Seek(uint64_t wanted);
  unsigned LeafOfBound() const;
  bool CopyLeaf(uint64_t wanted, LeafCopy* copy) const;
  void CopyPairs(pmem::Offset offset, uint32_t slots, uint32_t group, LeafCopy* copy) const;
  bool IsLast(const LeafCopy& copy, bool rightmost) const;
  void Advance(LeafCopy* copy);
  void PrefetchAhead(unsigned distance, uint64_t wanted) const;
  void PrefetchLeaf(unsigned leaf) const;
  void PrefetchRecords(const LeafCopy& copy) const requires C::kRecords;

  void Merge(const LeafCopy& copy);
  void SortPairs(const LeafCopy& copy);
  bool SortByWords(const LeafCopy& copy, const uint64_t* words);
  void MergeBuffered(const LeafCopy& copy);
  using RunIterator = absl::InlinedVector<Pair, kLeafSlots + kNodeSlots>::iterator;
  void Trim(const LeafCopy& copy);
  void CutOff(RunIterator first, RunIterator last);
  bool IsBelow(Pair pair, const Key& key) const;

  void VisitWords(ScanVisitor visitor);
  Outcome VisitRecords(ScanVisitor visitor) requires C::kRecords;
  Outcome FillPage(ScanPage* page) requires C::kRecords;
  Outcome CopyRun(ScanPage* page, bool* full) requires C::kRecords;
  Outcome CopyItem(Pair pair, ScanPage* page) const requires C::kRecords;
  void ResumeBehind(Pair pair) requires C::kRecords;

  const LodgeTree& tree_;
  const ScanOptions& options_;
  uint64_t left_;
  bool done_ = false;
  // What remains. Forward: near_ <= key < far_. In reverse: far_ <= key < near_.
  Key near_{};
  Key far_{};
  bool has_near_ = true;  // false: from the end of all keys
  bool has_far_ = true;
  std::string resume_text_;  // of near_, behind a full page
  Separator passed_{};       // instead of near_, behind a whole leaf
  bool has_passed_ = false;
  // The next leaf, which is sought when there is no node.
  const Node* node_ = nullptr;
  uint64_t snapshot_ = 0;
  unsigned leaf_ = 0;
  bool sought_ = false;
  // The pairs of one leaf that are to be visited, in the scan's order.
  absl::InlinedVector<Pair, kLeafSlots + kNodeSlots> run_;
  bool damaged_ = false;  // a record that was met
  unsigned page_pairs_ = 0;
};

// False: the range is empty.
template <class C>
bool LodgeTree<C>::Scanner::SetBounds() {
  Key low{};
  Key high{};
  bool bounded = options_.end.has_value();
  if constexpr (C::kRecords) {
    low = C::MakeKey(options_.start);
    if (bounded) high = C::MakeKey(*options_.end);
    if (bounded && low.text >= high.text) return false;
  } else {
    if (!FixedBound(options_.start, &low.word)) return false;
    if (bounded) bounded = FixedBound(*options_.end, &high.word);
    if (bounded && low.word >= high.word) return false;
  }
  near_ = options_.reverse ? high : low;
  far_ = options_.reverse ? low : high;
  has_near_ = !options_.reverse || bounded;
  has_far_ = options_.reverse || bounded;
  return true;
}

// --- from leaf to leaf ---

// Takes the next leaf; `wanted` items are still to come.
template <class C>
void LodgeTree<C>::Scanner::Collect(uint64_t wanted, LeafCopy* copy) {
  for (;;) {
    if (node_ == nullptr) Seek(wanted);
    if (CopyLeaf(wanted, copy)) break;
    node_ = nullptr;
  }
  Advance(copy);
  if constexpr (C::kRecords) PrefetchRecords(*copy);
}

template <class C>
void LodgeTree<C>::Scanner::Seek(uint64_t wanted) {
  if (has_passed_) {
    near_ = C::KeyOf(passed_);
    has_near_ = true;
    has_passed_ = false;
  }
  do {
    if (!has_near_) {
      node_ = tree_.tree_.DescendLast(&snapshot_);
    } else {
      const auto seek = options_.reverse ? Inner::Seek::kBefore : Inner::Seek::kCovering;
      node_ = tree_.tree_.Descend(near_, &snapshot_, seek);
    }
    Prefetch(node_->leaf_count);
    leaf_ = LeafOfBound();
    for (unsigned i = 0; i < kLeavesAhead; ++i) PrefetchAhead(i, wanted);
  } while (!node_->lock.Validate(snapshot_));
  sought_ = true;
}

// Right only if the node has not changed since.
template <class C>
unsigned LodgeTree<C>::Scanner::LeafOfBound() const {
  const OptimisticSection section;
  if (!has_near_) return std::clamp<unsigned>(node_->index_count, 1, kNodeSlots) - 1;
  const unsigned leaf = node_->Search(near_).leaf;
  if (!options_.reverse || leaf == 0) return leaf;
  const Separator low = node_->LowOf(leaf);
  // What may be no separator is not followed.
  if (!node_->lock.Validate(snapshot_)) return leaf;
  return C::CompareToKey(low, near_) == 0 ? leaf - 1 : leaf;
}

// False: the node has changed since it was found.
template <class C>
bool LodgeTree<C>::Scanner::CopyLeaf(uint64_t wanted, LeafCopy* copy) const {
  const OptimisticSection section;
  const Node* node = node_;
  const pmem::Offset offset = node->values[leaf_];
  const uint32_t slots = node->mirrors[leaf_].slots();
  const uint32_t group = node->GroupMask(leaf_);
  const bool at_end = leaf_ + 1 == node->index_count;
  const bool bounded = node->bounded;
  copy->low = node->LowOf(leaf_);
  copy->high = at_end ? node->high : node->LowOf(leaf_ + 1);
  copy->prefix = bounded ? node->prefix : 0;
  copy->bounded = !at_end || bounded;
  copy->last_of_node = options_.reverse ? leaf_ == 0 : at_end;
  // What may be no leaf's address is not followed.
  if (!node->lock.Validate(snapshot_)) return false;
  PrefetchAhead(kLeavesAhead, wanted);
  CopyPairs(offset, slots, group, copy);
  if (!node->lock.Validate(snapshot_)) return false;
  const OptimisticSection::Validated validated;
  copy->last = IsLast(*copy, at_end && !bounded);
  return true;
}

template <class C>
void LodgeTree<C>::Scanner::CopyPairs(pmem::Offset offset, uint32_t slots, uint32_t group,
                                      LeafCopy* copy) const {
  const auto* leaf = tree_.pool_.template At<media::Leaf>(offset);
  unsigned count = 0;
  for (; slots != 0; slots &= slots - 1) {
    const Pair pair = SlotPair(leaf, static_cast<unsigned>(std::countr_zero(slots)));
    copy->words[count] = pair.key;
    copy->values[count++] = pair.value;
  }
  copy->count = count;
  count = copy->deleted = 0;
  for (; group != 0; group &= group - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(group));
    copy->deleted |= uint32_t{node_->IsTombstone(i)} << count;
    copy->buffered[count++] = node_->BufferedPair(i);
  }
  copy->buffered_count = count;
}

template <class C>
bool LodgeTree<C>::Scanner::IsLast(const LeafCopy& copy, bool rightmost) const {
  if (options_.reverse) return C::CompareToKey(copy.low, far_) <= 0;
  return rightmost || (has_far_ && C::CompareToKey(copy.high, far_) >= 0);
}

// The leaf was taken: on to the next.
template <class C>
void LodgeTree<C>::Scanner::Advance(LeafCopy* copy) {
  copy->trim = sought_ && has_near_;
  copy->near = near_;
  sought_ = false;
  passed_ = options_.reverse ? copy->low : copy->high;
  has_passed_ = !copy->last;
  if (copy->last_of_node) {
    node_ = nullptr;
  } else {
    leaf_ += options_.reverse ? -1u : 1u;
  }
}

// The leaf that will be the `distance`-th from here, if so many items are wanted. Before the node
// is validated it may be no leaf, which does no harm.
template <class C>
void LodgeTree<C>::Scanner::PrefetchAhead(unsigned distance, uint64_t wanted) const {
  const OptimisticSection section;
  const unsigned leaf = options_.reverse ? leaf_ - distance : leaf_ + distance;
  if (leaf < node_->index_count && wanted > distance * kUsualPairs) PrefetchLeaf(leaf);
}

// What will be read of a leaf, on the medium and in the node.
template <class C>
void LodgeTree<C>::Scanner::PrefetchLeaf(unsigned leaf) const {
  const uintptr_t media = tree_.LeafAddress(node_, leaf);
  for (unsigned line = LineOfSlot(0); line < kLeafLines; ++line) {
    Prefetch(reinterpret_cast<const void*>(media + line * pmem::kLineBytes));
  }
  Prefetch(&node_->mirrors[leaf].bits);
  if constexpr (C::kRecords) {
    Prefetch(node_->separators.low + leaf + 1);
  }
}

template <class C>
void LodgeTree<C>::Scanner::PrefetchRecords(const LeafCopy& copy) const requires C::kRecords {
  const size_t bytes = usual_record_bytes;
  const auto prefetch = [&](uint64_t value) {
    if (!C::IsRecord(value)) return;
    const pmem::Offset record = C::RecordOf(value);
    const char* first = tree_.pool_.template At<char>(record - record % pmem::kLineBytes);
    const char* end = tree_.pool_.template At<char>(record + bytes);
    for (const char* line = first; line < end; line += pmem::kLineBytes) Prefetch(line);
  };
  for (unsigned i = 0; i < copy.count; ++i) prefetch(copy.values[i]);
  for (unsigned i = 0; i < copy.buffered_count; ++i) prefetch(copy.buffered[i].value);
}

// --- the pairs of a leaf ---

// Sets run_.
template <class C>
void LodgeTree<C>::Scanner::Merge(const LeafCopy& copy) {
  SortPairs(copy);
  MergeBuffered(copy);
  Trim(copy);
  if (options_.reverse) std::reverse(run_.begin(), run_.end());
}

// By the keys' first words, which need no look at the records; where these tie, by the words behind
// what all keys of the node share, then of the leaf; where these tie too, by whole keys.
template <class C>
void LodgeTree<C>::Scanner::SortPairs(const LeafCopy& copy) {
  run_.resize(copy.count);
  const bool may_differ = !C::kRecords || copy.prefix < sizeof(uint64_t);
  if (may_differ && SortByWords(copy, copy.words)) return;
  if constexpr (C::kRecords) {
    const auto sort_behind = [&](size_t shared) {
      alignas(64) uint64_t words[kRoom];
      char scratch[8];
      for (unsigned i = 0; i < copy.count; ++i) {
        words[i] = KeyWord(tree_.codec_.KeyText(copy.PairAt(i), scratch), shared);
      }
      return SortByWords(copy, words);
    };
    if (copy.prefix != 0 && sort_behind(copy.prefix)) return;
    if (copy.bounded && sort_behind(CommonPrefix(copy.low->view(), copy.high->view()))) return;
    for (unsigned i = 0; i < copy.count; ++i) run_[i] = copy.PairAt(i);
    std::sort(run_.begin(), run_.end(), [&](Pair x, Pair y) { return tree_.codec_.Less(x, y); });
  }
}

// A pair's place is the number of words below its own: wide compares, without the branches of a
// sort. False: words tie.
template <class C>
bool LodgeTree<C>::Scanner::SortByWords(const LeafCopy& copy, const uint64_t* words) {
  const uint32_t valid = (uint32_t{1} << copy.count) - 1;
  uint32_t taken = 0;
  for (unsigned i = 0; i < copy.count; ++i) {
    const auto place = static_cast<unsigned>(std::popcount(NotAbove(words, words[i]) & valid)) - 1;
    run_[place] = copy.PairAt(i);
    taken |= uint32_t{1} << place;
  }
  return taken == valid;
}

// A buffered pair takes the place of the leaf's pair of that key.
template <class C>
void LodgeTree<C>::Scanner::MergeBuffered(const LeafCopy& copy) {
  const C& codec = tree_.codec_;
  for (unsigned i = 0; i < copy.buffered_count; ++i) {
    const Pair pair = copy.buffered[i];
    const bool deleted = (copy.deleted >> i & 1) != 0;
    const auto at = std::lower_bound(run_.begin(), run_.end(), pair,
                                     [&](Pair a, Pair b) { return codec.Less(a, b); });
    const bool same = at != run_.end() && codec.SameKey(*at, pair);
    if (same && deleted) {
      run_.erase(at);
    } else if (same) {
      *at = pair;
    } else if (!deleted) {
      run_.insert(at, pair);
    }
  }
}

// Cuts off what is not in the range. The run ascends.
template <class C>
void LodgeTree<C>::Scanner::Trim(const LeafCopy& copy) {
  const Key* low = copy.trim ? &copy.near : nullptr;
  const Key* high = copy.last && has_far_ ? &far_ : nullptr;
  if (options_.reverse) std::swap(low, high);
  const auto first_from = [&](const Key& key) {
    return std::partition_point(run_.begin(), run_.end(),
                                [&](Pair pair) { return IsBelow(pair, key); });
  };
  if (high != nullptr) CutOff(first_from(*high), run_.end());
  if (low != nullptr) CutOff(run_.begin(), first_from(*low));
}

// A damaged key may seem to be out of the range, and hide others behind it.
template <class C>
void LodgeTree<C>::Scanner::CutOff(RunIterator first, RunIterator last) {
  if constexpr (C::kRecords) {
    damaged_ |= !std::all_of(first, last, [&](Pair pair) { return tree_.codec_.KeyFits(pair); });
  }
  run_.erase(first, last);
}

template <class C>
bool LodgeTree<C>::Scanner::IsBelow(Pair pair, const Key& key) const {
  if (pair.key != key.word || !C::kRecords) return pair.key < key.word;
  if constexpr (C::kRecords) {
    char scratch[8];
    return tree_.codec_.KeyText(pair, scratch) < key.text;
  }
}

// --- to the visitor ---

template <class C>
void LodgeTree<C>::Scanner::VisitWords(ScanVisitor visitor) {
  LeafCopy leaf;
  for (bool last = false; !last; last = leaf.last) {
    Collect(left_, &leaf);
    Merge(leaf);
    for (const Pair pair : run_) {
      char key[8];
      char value[8];
      StoreBigEndian(pair.key, key);
      StoreBigEndian(pair.value, value);
      const std::string_view shown(value, options_.keys_only ? 0 : sizeof(value));
      if (!visitor({{key, sizeof(key)}, shown, 0, 0}) || --left_ == 0) return;
    }
  }
}

template <class C>
Outcome LodgeTree<C>::Scanner::VisitRecords(ScanVisitor visitor) requires C::kRecords {
  ScanPage page;
  while (!done_ && left_ > 0) {
    const Outcome outcome = FillPage(&page);
    if (!page.Visit(visitor)) return Outcome::kOk;
    if (outcome != Outcome::kOk) return outcome;
    left_ -= page.items();
  }
  return Outcome::kOk;
}

// Copies items until the page is full or the range ends. A leaf is taken before the one in hand is
// copied, unless that will do.
template <class C>
Outcome LodgeTree<C>::Scanner::FillPage(ScanPage* page) requires C::kRecords {
  page->Clear();
  page_pairs_ = 0;
  LeafCopy copies[2];
  bool ahead = false;
  const EpochGuard guard;
  for (unsigned at = 0; !done_; at ^= 1) {
    LeafCopy& leaf = copies[at];
    if (!ahead) Collect(left_ - page->items(), &leaf);
    const uint64_t wanted = left_ - page->items();
    const unsigned pairs = leaf.count + leaf.buffered_count;
    ahead = !leaf.last && wanted > pairs;
    if (ahead) Collect(wanted - pairs, &copies[at ^ 1]);
    Merge(leaf);
    bool full = false;
    const Outcome outcome = damaged_ ? Outcome::kDataLoss : CopyRun(page, &full);
    if (full || outcome != Outcome::kOk) return outcome;
    done_ = leaf.last;
  }
  return Outcome::kOk;
}

template <class C>
Outcome LodgeTree<C>::Scanner::CopyRun(ScanPage* page, bool* full) requires C::kRecords {
  for (const Pair pair : run_) {
    const Outcome outcome = CopyItem(pair, page);
    if (outcome != Outcome::kOk) return outcome;
    done_ = page->items() == left_;
    *full = done_ || page->used() >= kPageBytes || ++page_pairs_ == kPagePairs;
    if (!*full) continue;
    if (!done_) ResumeBehind(pair);
    break;
  }
  return Outcome::kOk;
}

// Leaves out what has expired.
template <class C>
Outcome LodgeTree<C>::Scanner::CopyItem(Pair pair, ScanPage* page) const requires C::kRecords {
  if (!C::IsRecord(pair.value)) {
    if (!C::InlineIsSound(pair)) return Outcome::kDataLoss;
    char key[8];
    char value[8];
    std::string_view shown;
    if (!options_.keys_only) shown = C::InlineValue(pair.value, value);
    page->Append(tree_.codec_.KeyText(pair, key), shown, 0, 0);
    return Outcome::kOk;
  }
  const pmem::Offset offset = C::RecordOf(pair.value);
  const RecordView record = ViewRecord(tree_.pool_, offset);
  bool live;
  const Outcome outcome = tree_.values_.CheckRecord(offset, record, options_.now_unix_ms, &live);
  if (outcome != Outcome::kOk || !live) return outcome;
  usual_record_bytes =
      std::min(RecordBytes(record.key.size(), record.value.size(), record.expiry_unix_ms != 0),
               kFetchedBytes);
  const std::string_view value = options_.keys_only ? std::string_view() : record.value;
  page->Append(record.key, value, tree_.codec_.inline_pairs() ? 0 : record.version,
               record.expiry_unix_ms);
  return Outcome::kOk;
}

// The page ends with this pair: what was collected is out of date when the scan goes on.
template <class C>
void LodgeTree<C>::Scanner::ResumeBehind(Pair pair) requires C::kRecords {
  char scratch[8];
  resume_text_.assign(tree_.codec_.KeyText(pair, scratch));
  if (!options_.reverse) resume_text_.push_back('\0');
  near_ = C::MakeKey(resume_text_);
  has_near_ = true;
  has_passed_ = false;
  node_ = nullptr;
}

template <class C>
Outcome LodgeTree<C>::Scan(const ScanOptions& options, ScanVisitor visitor) {
  return Scanner(*this, options).Run(visitor);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
