// Scan: leaf by leaf. The pairs of a leaf and those buffered for it are taken together under one
// version of the node, the buffered ones winning; records are copied out inside an epoch; the
// visitor is called outside of everything.
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "index/lodgetree/lodgetree.h"
#include "index/node/epoch.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::lodgetree {

namespace {

// Copied out between two calls of the visitor, at most (one item may be larger).
constexpr size_t kPageBytes = size_t{1} << 20;

// The smallest 8-byte key that is not below `bound`; false: there is none.
bool FixedBound(std::string_view bound, std::string* out) {
  uint64_t word = KeyWord(bound, 0);
  if (bound.size() > 8 && ++word == 0) return false;
  out->resize(8);
  StoreBigEndian(word, out->data());
  return true;
}

}  // namespace

template <class C>
class LodgeTree<C>::Scanner {
 public:
  Scanner(const LodgeTree& tree, const ScanOptions& options)
      : tree_(tree), options_(options), left_(options.limit == 0 ? UINT64_MAX : options.limit) {}

  Outcome Run(ScanVisitor visitor) {
    if (!SetBounds()) return Outcome::kOk;
    while (!done_ && left_ > 0) {
      const Outcome outcome = FillPage();
      if (!Emit(visitor)) return Outcome::kOk;
      if (outcome != Outcome::kOk) return outcome;
    }
    return Outcome::kOk;
  }

 private:
  struct Item {
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint64_t version;
    uint64_t expiry_unix_ms;
  };

  bool SetBounds();
  Outcome FillPage();
  void CollectLeaf();
  bool CollectFrom(const Node* node, uint64_t snapshot, const Key* bound);
  unsigned LeafFor(const Node* node, const Key* bound) const;
  void Merge();
  bool InRange(Pair pair) const;
  Outcome CopyItem(Pair pair);
  bool Emit(ScanVisitor visitor);

  const LodgeTree& tree_;
  const ScanOptions& options_;
  uint64_t left_;
  bool done_ = false;
  // What remains: [low_, high_) where bounded_. A scan forward raises low_, one in reverse lowers
  // high_.
  std::string low_;
  std::string high_;
  bool bounded_ = false;
  // The leaf in hand.
  std::string next_bound_;
  bool last_leaf_ = false;
  std::vector<Pair> pairs_;
  std::vector<Pair> buffered_;
  std::vector<bool> deleted_;
  // The page in hand.
  std::string bytes_;
  std::vector<Item> items_;
};

template <class C>
bool LodgeTree<C>::Scanner::SetBounds() {
  bounded_ = options_.end.has_value();
  if constexpr (C::kRecords) {
    low_.assign(options_.start);
    if (bounded_) high_.assign(*options_.end);
  } else {
    if (!FixedBound(options_.start, &low_)) return false;
    if (bounded_) bounded_ = FixedBound(*options_.end, &high_);
  }
  return !bounded_ || low_ < high_;
}

// Copies the pairs of leaves until the page is full or the range ends.
template <class C>
Outcome LodgeTree<C>::Scanner::FillPage() {
  bytes_.clear();
  items_.clear();
  const EpochGuard guard;
  while (!done_ && bytes_.size() < kPageBytes && items_.size() < left_) {
    CollectLeaf();
    Merge();
    for (const Pair pair : pairs_) {
      const Outcome outcome = CopyItem(pair);
      if (outcome != Outcome::kOk) {
        done_ = true;
        return outcome;
      }
      if (bytes_.size() >= kPageBytes || items_.size() >= left_) return Outcome::kOk;
    }
    if (last_leaf_) {
      done_ = true;
    } else if (options_.reverse) {
      high_.swap(next_bound_);
      bounded_ = true;
    } else {
      low_.swap(next_bound_);
    }
  }
  return Outcome::kOk;
}

// Takes the raw pairs of the leaf at the range's near end.
template <class C>
void LodgeTree<C>::Scanner::CollectLeaf() {
  for (;;) {
    uint64_t snapshot;
    const Node* node;
    if (!options_.reverse) {
      const Key key = C::MakeKey(low_);
      node = tree_.tree_.Descend(key, &snapshot);
      if (CollectFrom(node, snapshot, &key)) return;
    } else if (bounded_) {
      const Key key = C::MakeKey(high_);
      node = tree_.tree_.Descend(key, &snapshot, Inner::Seek::kBefore);
      if (CollectFrom(node, snapshot, &key)) return;
    } else {
      node = tree_.tree_.DescendLast(&snapshot);
      if (CollectFrom(node, snapshot, nullptr)) return;
    }
  }
}

template <class C>
unsigned LodgeTree<C>::Scanner::LeafFor(const Node* node, const Key* bound) const {
  const unsigned leaves = std::min<unsigned>(node->index_count, kNodeSlots);
  if (bound == nullptr) return leaves == 0 ? 0 : leaves - 1;
  unsigned leaf = node->Search(*bound).leaf;
  if (options_.reverse && leaf > 0 && C::CompareToKey(node->LowOf(leaf), *bound) == 0) --leaf;
  return leaf;
}

// False: the node has changed meanwhile.
template <class C>
bool LodgeTree<C>::Scanner::CollectFrom(const Node* node, uint64_t snapshot, const Key* bound) {
  pairs_.clear();
  buffered_.clear();
  deleted_.clear();
  const OptimisticSection section;
  const unsigned leaf = LeafFor(node, bound);
  if (!node->lock.Validate(snapshot)) return false;
  const pmem::Offset offset = node->values[leaf];
  const uint32_t slots = node->mirrors[leaf].slots();
  const uint32_t group = node->GroupMask(leaf);
  const bool at_end = leaf + 1 == node->index_count;
  const bool bounded = node->bounded;
  const Separator low = node->LowOf(leaf);
  const Separator high = at_end ? node->high : node->LowOf(leaf + 1);
  if (!node->lock.Validate(snapshot)) return false;

  const auto* media = tree_.pool_.template At<media::Leaf>(offset);
  for (uint32_t rest = slots; rest != 0; rest &= rest - 1) {
    pairs_.push_back(SlotPair(media, static_cast<unsigned>(std::countr_zero(rest))));
  }
  for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(rest));
    buffered_.push_back(node->BufferedPair(i));
    deleted_.push_back(node->IsTombstone(i));
  }
  if (!node->lock.Validate(snapshot)) return false;
  const OptimisticSection::Validated validated;
  const Separator next = options_.reverse ? low : high;
  last_leaf_ = options_.reverse ? C::CompareToKey(low, C::MakeKey(low_)) <= 0 : at_end && !bounded;
  if (last_leaf_) return true;
  if constexpr (C::kRecords) {
    next_bound_.assign(next->view());
  } else {
    next_bound_.resize(8);
    StoreBigEndian(next, next_bound_.data());
  }
  if (!options_.reverse && bounded_ && next_bound_ >= high_) last_leaf_ = true;
  return true;
}

// Buffered pairs replace the leaf's; what remains is in range and in order.
template <class C>
void LodgeTree<C>::Scanner::Merge() {
  const C& codec = tree_.codec_;
  std::erase_if(pairs_, [&](Pair pair) {
    return std::any_of(buffered_.begin(), buffered_.end(),
                       [&](Pair newer) { return codec.SameKey(pair, newer); });
  });
  for (size_t i = 0; i < buffered_.size(); ++i) {
    if (!deleted_[i]) pairs_.push_back(buffered_[i]);
  }
  std::erase_if(pairs_, [&](Pair pair) { return !InRange(pair); });
  std::sort(pairs_.begin(), pairs_.end(),
            [&](Pair a, Pair b) { return options_.reverse ? codec.Less(b, a) : codec.Less(a, b); });
}

template <class C>
bool LodgeTree<C>::Scanner::InRange(Pair pair) const {
  if constexpr (C::kRecords) {
    char scratch[8];
    const std::string_view key = tree_.codec_.KeyText(pair, scratch);
    return key >= low_ && (!bounded_ || key < high_);
  } else {
    return pair.key >= KeyWord(low_, 0) && (!bounded_ || pair.key < KeyWord(high_, 0));
  }
}

// Appends the pair to the page and moves the range past it.
template <class C>
Outcome LodgeTree<C>::Scanner::CopyItem(Pair pair) {
  char key_scratch[8];
  std::string_view key;
  ReadResult value;
  if constexpr (C::kRecords) {
    key = tree_.codec_.KeyText(pair, key_scratch);
  } else {
    StoreBigEndian(pair.key, key_scratch);
    key = {key_scratch, 8};
  }
  const Outcome outcome = tree_.CopyValue(pair.value, options_.now_unix_ms, &value);
  if (outcome != Outcome::kOk) return outcome;
  if (options_.reverse) {
    high_.assign(key);
    bounded_ = true;
  } else {
    low_.assign(key);
    if constexpr (C::kRecords) {
      low_.push_back('\0');
    } else if (!FixedBound(low_ + '\0', &low_)) {
      done_ = true;
    }
  }
  if (!value.found) return Outcome::kOk;
  if (options_.keys_only) value.value.clear();
  items_.push_back({static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.value.size()),
                    value.version, value.expiry_unix_ms});
  bytes_.append(key);
  bytes_.append(value.value);
  return Outcome::kOk;
}

template <class C>
bool LodgeTree<C>::Scanner::Emit(ScanVisitor visitor) {
  const char* at = bytes_.data();
  for (const Item& item : items_) {
    const ScanItem out{{at, item.key_bytes},
                       {at + item.key_bytes, item.value_bytes},
                       item.version,
                       item.expiry_unix_ms};
    at += item.key_bytes + item.value_bytes;
    --left_;
    if (!visitor(out)) return false;
  }
  return true;
}

template <class C>
Outcome LodgeTree<C>::Scan(const ScanOptions& options, ScanVisitor visitor) {
  return Scanner(*this, options).Run(visitor);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
