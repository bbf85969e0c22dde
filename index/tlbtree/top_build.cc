// A new array for the top layer, written beside the one in use.
#include <algorithm>
#include <bit>

#include "index/node/separator.h"
#include "index/tlbtree/top_layer.h"

namespace lodgekv::tlbtree {

namespace {

// One array in the making. Blocks of 256 bytes are written one after another.
template <class C>
class TopBuilder {
 public:
  using Entry = typename TopLayer<C>::Entry;

  TopBuilder(pmem::Pool& pool, TwoGenerations& generations, const std::vector<Entry>& entries,
             unsigned gaps)
      : pool_(pool), generations_(generations), entries_(entries), fill_(kTopLeafSlots - gaps) {
    used_nodes_ = (entries.size() + fill_ - 1) / fill_;
    // At least a fifth is spare. By powers of two, since each class of sizes has chunks of its own.
    leaf_nodes_ = gaps == 0 ? used_nodes_ : std::bit_ceil(used_nodes_ + used_nodes_ / 4 + 2);
    shape_ = TopShape::Of(leaf_nodes_);
    if constexpr (C::kRecords) FindPrefix();
  }

  uint64_t bytes() const { return shape_.bytes; }
  void WriteTo(const TwoGenerations::Staged& staged) {
    WriteHeader(staged);
    for (unsigned level = 0; level < shape_.levels; ++level) WriteLevel(staged, level);
    for (uint64_t node = 0; node < leaf_nodes_; ++node) WriteLeaf(staged, node);
  }

 private:
  // The first entry is minus infinity, and counts for nothing.
  void FindPrefix() {
    if (entries_.size() < 2) return;
    char first[8];
    char last[8];
    const std::string_view low = TextOfLow(pool_, entries_[1].low, first);
    const std::string_view high = TextOfLow(pool_, entries_.back().low, last);
    const size_t shared = std::min<size_t>(CommonPrefix(low, high), kTopPrefixBytes);
    prefix_.assign(low.substr(0, shared));
  }
  uint64_t WordOf(uint64_t entry) const {
    if constexpr (C::kRecords) {
      char scratch[8];
      return entry == 0 ? 0
                        : KeyWord(TextOfLow(pool_, entries_[entry].low, scratch), prefix_.size());
    } else {
      return entries_[entry].low.word;
    }
  }
  void WriteHeader(const TwoGenerations::Staged& staged);
  void WriteLevel(const TwoGenerations::Staged& staged, unsigned level);
  void WriteLeaf(const TwoGenerations::Staged& staged, uint64_t node);

  pmem::Pool& pool_;
  TwoGenerations& generations_;
  const std::vector<Entry>& entries_;
  const uint64_t fill_;  // entries of a leaf node
  uint64_t used_nodes_;
  uint64_t leaf_nodes_;
  TopShape shape_;
  std::string prefix_;
};

template <class C>
void TopBuilder<C>::WriteHeader(const TwoGenerations::Staged& staged) {
  constexpr size_t kWords = sizeof(media::TopHeader) / sizeof(uint64_t);
  uint64_t words[kWords] = {};
  words[offsetof(media::TopHeader, leaf_nodes) / 8] = leaf_nodes_;
  words[offsetof(media::TopHeader, entries) / 8] = entries_.size();
  words[offsetof(media::TopHeader, prefix_bytes) / 8] = prefix_.size();
  std::copy(prefix_.begin(), prefix_.end(),
            reinterpret_cast<char*>(words) + offsetof(media::TopHeader, prefix));
  words[0] =
      TopView::ChecksumOf(*reinterpret_cast<const media::TopHeader*>(words), pool_.crc_seed());
  generations_.Write(staged, 0, words, sizeof(words));
}

template <class C>
void TopBuilder<C>::WriteLevel(const TwoGenerations::Staged& staged, unsigned level) {
  const uint64_t below = TopShape::LeavesBelow(shape_.levels, level);
  const uint64_t children = shape_.children[level];
  for (uint64_t first = 0; first < children; first += kTopFanout) {
    uint64_t words[kTopFanout];
    for (unsigned i = 0; i < kTopFanout; ++i) {
      const uint64_t leaf = (first + i) * below;
      words[i] = leaf < used_nodes_ ? WordOf(leaf * fill_) : kTopUnused;
    }
    generations_.Write(staged, shape_.at[level] + first * sizeof(uint64_t), words, sizeof(words));
  }
}

template <class C>
void TopBuilder<C>::WriteLeaf(const TwoGenerations::Staged& staged, uint64_t node) {
  uint64_t words[2 * kTopLeafSlots];
  for (unsigned slot = 0; slot < kTopLeafSlots; ++slot) {
    const uint64_t entry = node * fill_ + slot;
    const bool used = slot < fill_ && entry < entries_.size();
    words[slot] = used ? WordOf(entry) : kTopUnused;
    words[kTopLeafSlots + slot] = used ? CheckedWord(entries_[entry].anchor) : 0;
  }
  generations_.Write(staged, shape_.leaves_at + node * sizeof(words), words, sizeof(words));
}

}  // namespace

template <class C>
bool TopLayer<C>::Replace(const std::vector<Entry>& entries, unsigned gaps) {
  TopBuilder<C> builder(pool_, generations_, entries, gaps);
  TwoGenerations::Staged staged;
  if (!generations_.Stage(builder.bytes(), pmem::ReservePolicy::kKeep, &staged)) return false;
  builder.WriteTo(staged);
  return generations_.Commit(staged, [this] {
    const TwoGenerations::Content content = generations_.Current();
    TopView view;
    if (TopView::Read(content.data, content.bytes, pool_.crc_seed(), &view))
      Publish(std::move(view));
  });
}

template bool TopLayer<Fixed64Codec>::Replace(const std::vector<Entry>&, unsigned);
template bool TopLayer<BytesCodec>::Replace(const std::vector<Entry>&, unsigned);

}  // namespace lodgekv::tlbtree
