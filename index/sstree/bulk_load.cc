// Bulk load at a chosen fill: writes the leaves one after another, each once, with streaming
// stores; then builds the inner tree over them. The crash table: README.md, Bulk load. Nothing
// looks for subnodes before the pool has an engine, so a leaf's own stores need no order.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "index/node/sorted_pairs.h"
#include "index/pmem/crash_point.h"
#include "index/sstree/sstree.h"

namespace lodgekv::sstree {

namespace {
// If a fence is an instruction: few lines are in flight, and blocks are counted right (medium.h).
constexpr size_t kLeavesPerFence = 8;

struct SubnodeImage {
  alignas(pmem::kLineBytes) uint64_t words[pmem::kBlockBytes / sizeof(uint64_t)] = {};
};

// One load, into a pool without other users. Used by one thread.
template <class C>
class BulkLoader {
 public:
  BulkLoader(TreeState<C>& tree, const lodgekv::BulkLoad& load)
      : tree_(tree),
        medium_(tree.medium),
        stages_(tree.pool, tree.slab, tree.codec, tree.values),
        pairs_(load.source, tree.codec),
        in_100_leaves_(std::max(100u, load.fill_percent * tree.parameters.leaf_slots *
                                          tree.parameters.most_subnodes())) {}

  absl::Status Run();

 private:
  absl::Status Stage(const WriteOp& op, Pair* pair);
  absl::Status EndLeaf(Pair next);
  absl::Status WriteLeaf();
  void WriteSubnode(unsigned number, unsigned subnodes, pmem::Offset at, pmem::Offset next,
                    Leaf* leaf);
  absl::Status Finish();
  absl::Status PoolIsFull() const;
  // Pairs for leaf number `n`, so that all leaves together have the wanted fill.
  unsigned WantedIn(uint64_t n) const {
    return static_cast<unsigned>(in_100_leaves_ * (n + 1) / 100 - in_100_leaves_ * n / 100);
  }
  // Overflow subnodes are full, the head has the rest: these pairs are in subnode `number`.
  std::span<const Pair> PairsOf(unsigned number, unsigned subnodes) const {
    const unsigned slots = tree_.parameters.leaf_slots;
    const unsigned end = count_ - slots * (subnodes - 1 - number);
    const unsigned begin = number == 0 ? 0 : end - slots;
    return {in_leaf_ + begin, end - begin};
  }

  TreeState<C>& tree_;
  pmem::Medium& medium_;
  OpStages<C> stages_;
  SortedPairs<C> pairs_;
  const uint64_t in_100_leaves_;  // pairs
  // The current leaf.
  typename C::Separator low_ = C::MinusInfinity();
  Pair in_leaf_[kMaxLeafSlots];
  unsigned count_ = 0;
  std::vector<typename TreeState<C>::Inner::Child> leaves_;  // the leaves before it
};

template <class C>
absl::Status BulkLoader<C>::Run() {
  unsigned wanted = WantedIn(0);
  for (WriteOp op;;) {
    const absl::StatusOr<bool> more = pairs_.Next(&op);
    if (!more.ok()) return more.status();
    if (!*more) break;
    Pair pair;
    absl::Status status = Stage(op, &pair);
    if (status.ok() && count_ == wanted) {
      status = EndLeaf(pair);
      wanted = WantedIn(leaves_.size());
    }
    if (!status.ok()) return status;
    in_leaf_[count_++] = pair;
  }
  const absl::Status status = WriteLeaf();
  return status.ok() ? Finish() : status;
}

template <class C>
absl::Status BulkLoader<C>::Stage(const WriteOp& op, Pair* pair) {
  PendingOp<C> pending;
  WriteResult result;
  stages_.Begin(op, &result, &pending);
  if (stages_.Stage(&pending) != Outcome::kOk) return PoolIsFull();
  stages_.Finish(&pending);
  *pair = pending.staged.pair;
  return absl::OkStatus();
}

// `next` is the first pair of the following leaf.
template <class C>
absl::Status BulkLoader<C>::EndLeaf(Pair next) {
  absl::Status status = WriteLeaf();
  if (!status.ok()) return status;
  low_ = tree_.codec.Between(in_leaf_[count_ - 1], next, tree_.texts);
  count_ = 0;
  return absl::OkStatus();
}

// A tree without pairs has one leaf without subnodes.
template <class C>
absl::Status BulkLoader<C>::WriteLeaf() {
  Leaf* leaf = tree_.leaves.New();
  leaves_.push_back({low_, leaf});
  if (count_ == 0) return absl::OkStatus();
  const unsigned slots = tree_.parameters.leaf_slots;
  const unsigned subnodes = (count_ + slots - 1) / slots;
  pmem::Offset next = 0;
  for (unsigned number = subnodes; number-- > 0;) {
    const pmem::Offset at = tree_.subnodes.Allocate(pmem::ReservePolicy::kKeep);
    if (at == 0) return PoolIsFull();
    WriteSubnode(number, subnodes, at, next, leaf);
    next = at;
  }
  if (!medium_.long_fences() && leaves_.size() % kLeavesPerFence == 0) medium_.Fence();
  return absl::OkStatus();
}

// Pairs are at the end of the head, so that the next inserts find room beside its word.
template <class C>
void BulkLoader<C>::WriteSubnode(unsigned number, unsigned subnodes, pmem::Offset at,
                                 pmem::Offset next, Leaf* leaf) {
  constexpr unsigned kFingerprints = offsetof(media::Subnode, fingerprints) / sizeof(uint64_t);
  constexpr unsigned kSlots = offsetof(media::Subnode, slots) / sizeof(uint64_t);
  SubnodeImage image;
  image.words[0] = next == 0 ? media::End() : CheckedWord(next);
  const auto own = PairsOf(number, subnodes);
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
    const auto others = PairsOf(number + 1, subnodes);
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
absl::Status BulkLoader<C>::Finish() {
  LODGEKV_CRASH_POINT(medium_, "sstree.bulk_load.1");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "sstree.bulk_load.2");
  if (medium_.failed()) return absl::DataLossError("bulk load: a sync of the medium failed");
  tree_.inner.Build(leaves_);
  return absl::OkStatus();
}

template <class C>
absl::Status BulkLoader<C>::PoolIsFull() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("bulk load: the pool is full, there is no room for pair ", pairs_.count(),
                   "; nothing of the load is kept; make a larger pool"));
}

}  // namespace

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> SsTree<C>::BulkLoad(const EngineContext& context,
                                                            const lodgekv::BulkLoad& load) {
  absl::Status status = CheckFill(load.fill_percent);
  if (!status.ok()) return status;
  std::unique_ptr<SsTree> engine(new SsTree(context));
  status = BulkLoader<C>(engine->tree_, load).Run();
  if (status.ok()) return engine;
  engine.reset();
  context.pool->ResetForEngine();
  return status;
}

template class SsTree<Fixed64Codec>;
template class SsTree<BytesCodec>;

}  // namespace lodgekv::sstree
