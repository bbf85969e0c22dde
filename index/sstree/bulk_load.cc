// Bulk load at a chosen fill: writes the leaves one after another, each once, with streaming
// stores; then builds the inner tree over them. The crash table: README.md, Bulk load. Nothing
// looks for subnodes before the pool has an engine, so a leaf's own stores need no order.
#include <cstring>

#include "index/node/bulk_loader.h"
#include "index/pmem/crash_point.h"
#include "index/sstree/sstree.h"

namespace lodgekv::sstree {

namespace {

struct SubnodeImage {
  alignas(pmem::kLineBytes) uint64_t words[pmem::kBlockBytes / sizeof(uint64_t)] = {};
};

// What a bulk load writes (node/bulk_loader.h).
template <class C>
class LoadedLeaves {
 public:
  explicit LoadedLeaves(TreeState<C>& tree) : tree_(tree), medium_(tree.medium) {}

  bool Begin() { return true; }
  bool EndLeaf(std::span<const Pair> pairs, Pair next) {
    if (!EndLast(pairs)) return false;
    low_ = tree_.codec.Between(pairs.back(), next, tree_.texts);
    return true;
  }
  bool EndLast(std::span<const Pair> pairs);
  void Commit();
  void BuildAbove() { tree_.inner.Build(leaves_); }

 private:
  void WriteSubnode(std::span<const Pair> pairs, unsigned number, unsigned subnodes,
                    pmem::Offset at, pmem::Offset next, Leaf* leaf);
  // Overflow subnodes are full, the head has the rest: these pairs are in subnode `number`.
  std::span<const Pair> PairsOf(std::span<const Pair> pairs, unsigned number,
                                unsigned subnodes) const {
    const unsigned slots = tree_.parameters.leaf_slots;
    const size_t end = pairs.size() - slots * (subnodes - 1 - number);
    const size_t begin = number == 0 ? 0 : end - slots;
    return pairs.subspan(begin, end - begin);
  }

  TreeState<C>& tree_;
  pmem::Medium& medium_;
  typename C::Separator low_ = C::MinusInfinity();           // of the current leaf
  std::vector<typename TreeState<C>::Inner::Child> leaves_;  // the leaves before it
};

// A tree without pairs has one leaf without subnodes.
template <class C>
bool LoadedLeaves<C>::EndLast(std::span<const Pair> pairs) {
  Leaf* leaf = tree_.leaves.New();
  leaves_.push_back({low_, leaf});
  const unsigned slots = tree_.parameters.leaf_slots;
  const auto subnodes = static_cast<unsigned>((pairs.size() + slots - 1) / slots);
  pmem::Offset next = 0;
  for (unsigned number = subnodes; number-- > 0;) {
    const pmem::Offset at = tree_.subnodes.Allocate(pmem::ReservePolicy::kKeep);
    if (at == 0) return false;
    WriteSubnode(pairs, number, subnodes, at, next, leaf);
    next = at;
  }
  return true;
}

// Pairs are at the end of the head, so that the next inserts find room beside its word.
template <class C>
void LoadedLeaves<C>::WriteSubnode(std::span<const Pair> pairs, unsigned number, unsigned subnodes,
                                   pmem::Offset at, pmem::Offset next, Leaf* leaf) {
  constexpr unsigned kFingerprints = offsetof(media::Subnode, fingerprints) / sizeof(uint64_t);
  constexpr unsigned kSlots = offsetof(media::Subnode, slots) / sizeof(uint64_t);
  SubnodeImage image;
  image.words[0] = next == 0 ? media::End() : CheckedWord(next);
  const auto own = PairsOf(pairs, number, subnodes);
  const unsigned first = tree_.parameters.leaf_slots - static_cast<unsigned>(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    image.words[kSlots + 2 * (first + i)] = own[i].key;
    image.words[kSlots + 2 * (first + i) + 1] = own[i].value;
    const uint16_t hash = tree_.codec.HashOf(own[i]);
    if (number == 0) {
      leaf->fingerprints[first + i] = FingerprintOf(hash);
    } else {
      leaf->filter |= Leaf::FilterBits(hash);
    }
  }
  if (number + 1 < subnodes) {
    uint8_t tags[2 * sizeof(uint64_t)] = {};
    const auto others = PairsOf(pairs, number + 1, subnodes);
    for (size_t i = 0; i < others.size(); ++i) {
      tags[i] = FingerprintOf(tree_.codec.HashOf(others[i]));
    }
    std::memcpy(image.words + kFingerprints, tags, sizeof(tags));
  }
  if (number == 0) {
    const uint32_t slots = tree_.usable_slots() & ~((uint32_t{1} << first) - 1);
    uint64_t valid = slots;
    for (unsigned i = 1; i < subnodes; ++i) {
      valid |= uint64_t{tree_.usable_slots()} << i * kSubnodeSlots;
    }
    image.words[1] = SealedWord(valid);
    leaf->place = LeafPlace(at, subnodes, slots);
  }
  char* to = tree_.pool.template At<char>(at);
  for (size_t line = 0; line < sizeof(image.words); line += pmem::kLineBytes) {
    medium_.StreamLine(to + line, reinterpret_cast<const char*>(image.words) + line);
  }
}

template <class C>
void LoadedLeaves<C>::Commit() {
  LODGEKV_CRASH_POINT(medium_, "sstree.bulk_load.1");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "sstree.bulk_load.2");
}

}  // namespace

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> SsTree<C>::BulkLoad(const EngineContext& context,
                                                            const lodgekv::BulkLoad& load) {
  return CreateLoaded(
      context, load, [&] { return std::unique_ptr<SsTree>(new SsTree(context)); },
      [&](SsTree& engine) {
        TreeState<C>& tree = engine.tree_;
        LoadedLeaves<C> leaves(tree);
        const unsigned slots = tree.parameters.leaf_slots * tree.parameters.most_subnodes();
        return BulkLoader<C, LoadedLeaves<C>>(tree, load, slots, leaves).Run();
      });
}

template class SsTree<Fixed64Codec>;
template class SsTree<BytesCodec>;

}  // namespace lodgekv::sstree
