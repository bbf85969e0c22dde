#include "index/lbtree/lbtree.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "index/node/by_key_format.h"
#include "index/node/epoch.h"
#include "index/node/optimistic_section.h"
#include "index/pmem/naw_section.h"

namespace lodgekv::lbtree {

namespace {

constexpr EngineOption kOptions[] = {
    {"leaf_blocks", 1, 1, kMaxBlocks,
     "m: a leaf has m x 256 bytes; taken when the pool is created (LB+-Tree 3.4)"},
    {"leaf_slots", kBlockSlots, 4, kBlockSlots, "slots of a block of 256 bytes that are used"},
    {"entry_moving", 1, 0, 1, "switch: an insert moves entries out of the header's line"},
    {"fingerprints", 1, 0, 1, "switch: look only at slots with the key's fingerprint"},
    {"logless_split", 1, 0, 1, "switch: split without a log; off: the leaf is written aside first"},
    {"unlink_leaves", 1, 0, 1, "switch: a leaf goes with its last pair; off: at the next opening"},
};

constexpr CounterText kCounters[WorkerCounters::kCount] = {
    {"one_line_inserts_total", "Inserts whose slot was in the header's line"},
    {"two_line_inserts_total", "Inserts that wrote a second line"},
    {"moved_entries_total", "Entries moved out of a header's line"},
    {"leaf_splits_total", "Leaf splits"},
    {"updates_total", "Values stored in the slot of an existing key"},
    {"deletes_total", "Pairs deleted"},
    {"unlinked_leaves_total", "Leaves unlinked with their last pair"},
    {"batches_total", "Atomic batches committed"},
    {"groups_total", "Groups of operations committed under shared fences"},
};

}  // namespace

Parameters::Parameters(const OptionValues& options)
    : leaf_slots(static_cast<unsigned>(options.Get("leaf_slots"))),
      entry_moving(options.Get("entry_moving") != 0),
      fingerprints(options.Get("fingerprints") != 0),
      logless_split(options.Get("logless_split") != 0),
      unlink_leaves(options.Get("unlink_leaves") != 0) {}

template <class C>
LbTree<C>::LbTree(const EngineContext& context, unsigned blocks)
    : pool_(*context.pool),
      medium_(context.pool->medium()),
      parameters_(context.options),
      blocks_(blocks),
      leaves_(pool_, pmem::ChunkUse::kNodes, static_cast<uint32_t>(leaf_bytes())),
      slab_(pool_),
      codec_(pool_, &slab_, context.inline_pairs),
      values_(pool_, codec_),
      texts_(dram_,
             [this](SeparatorTexts::Batch gone) {
               reclaimer_.AfterEpochs([this, gone = std::move(gone)] { texts_.Free(gone); });
             }),
      locks_(pool_.base(), pool_.bytes()),
      pending_(medium_.long_fences() ? std::make_unique<PendingWord[]>(locks_.count()) : nullptr),
      tree_(dram_, texts_, LeafAccess{&locks_, blocks}),
      intents_(pool_, slab_, pool_.engine_area().subspan(media::kIntents, BatchIntents::kRoots)),
      reclaimer_(slab_, medium_.tracer() != nullptr) {}

template <class C>
LbTree<C>::~LbTree() {
  reclaimer_.Stop();
}

// A pool begins with one empty leaf.
template <class C>
absl::StatusOr<std::unique_ptr<Engine>> LbTree<C>::Create(const EngineContext& context) {
  const auto blocks = static_cast<unsigned>(context.options.Get("leaf_blocks"));
  std::unique_ptr<LbTree> tree(new LbTree(context, blocks));
  const pmem::Offset leaf = tree->leaves_.Allocate(pmem::Reserve::kKeep);
  if (leaf == 0) return absl::ResourceExhaustedError("the pool has no room for a first leaf");
  pmem::Medium& medium = tree->medium_;
  media::Block* first = tree->LeafAt(leaf);
  medium.StoreZeros(first, tree->leaf_bytes());
  const auto area = tree->pool_.engine_area();
  medium.Store(area[media::kBlocks], CheckedWord(blocks));
  pmem::NawSection section(medium);
  if (!medium.Canary("lbtree.create.leaf_not_flushed")) section.Stage(first, tree->leaf_bytes());
  section.Stage(&area[media::kBlocks], sizeof(pmem::Word));
  section.Commit(area[media::kFirstLeaf], CheckedWord(leaf));
  const typename Inner::Child child{C::MinusInfinity(), first};
  tree->tree_.Build({&child, 1});
  return tree;
}

// visit(leaf, bounds, slots of its blocks) for every leaf from the one that covers `from` to the
// right, each as it was at one moment, inside an EpochGuard.
template <class C>
void LbTree<C>::ForEachLeaf(std::string from, LeafVisitor visit) const {
  for (bool more = true; more;) {
    const EpochGuard guard;
    const Key key = C::MakeKey(from);
    uint64_t snapshot;
    typename Inner::Place place;
    const media::Block* leaf =
        tree_.DescendToPlace(&key, Inner::Seek::kCovering, &snapshot, &place);
    uint32_t slots[kMaxBlocks];
    {
      const OptimisticSection section;
      const LeafView view = ViewOf(leaf);
      for (unsigned b = 0; b < blocks_; ++b) slots[b] = view.SlotsOf(b);
      if (!locks_.Of(leaf).Validate(snapshot)) continue;
    }
    if (!visit(leaf, place.bounds, slots)) return;
    more = place.bounds.bounded && C::CompareToKey(place.bounds.high, key) > 0;
    if (more) from = C::TextOf(place.bounds.high);
  }
}

template <class C>
uint64_t LbTree<C>::CountKeys() {
  uint64_t keys = 0;
  ForEachLeaf(C::TextOf(C::MinusInfinity()),
              [&](const media::Block*, const Bounds&, const uint32_t* slots) {
                for (unsigned b = 0; b < blocks_; ++b)
                  keys += static_cast<uint64_t>(std::popcount(slots[b]));
                return true;
              });
  return keys;
}

template <class C>
uint64_t LbTree<C>::AppliedIndex() const {
  return pool_.applied_index();
}

template <class C>
void LbTree<C>::VisitCounters(CounterVisitor visitor) const {
  VisitSums(
      kCounters, workers_, [](const Worker& worker) -> auto& { return worker.counters; }, visitor);
  visitor({"leaves", "Leaves of the tree", CounterKind::kGauge,
           static_cast<double>(leaves_.used_units())});
  visitor({"inner_nodes", "Nodes above the leaves", CounterKind::kGauge,
           static_cast<double>(tree_.node_count())});
}

template <class C>
MemoryUse LbTree<C>::GetMemoryUse() const {
  MemoryUse use;
  use.medium_bytes = leaves_.used_units() * leaf_bytes() + slab_.used_bytes();
  use.dram_bytes = dram_.used_bytes() + locks_.bytes();
  return use;
}

// Everything acknowledged is durable already; retired records go back.
template <class C>
absl::Status LbTree<C>::Close() {
  if (medium_.failed()) return absl::UnavailableError("a sync of the medium has failed");
  workers_.ForEach([&](Worker& worker) { worker.retired.HandTo(reclaimer_); });
  (void)reclaimer_.Drain();
  return absl::OkStatus();
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

const EngineInfo& GetEngineInfo() {
  static constexpr EngineInfo kInfo = {
      .name = "lbtree",
      .summary = "B+-tree that writes few lines: entry moving, logless splits, distributed headers",
      .paper =
          "LB+-Trees: Optimizing Persistent Index Performance on 3DXPoint Memory, "
          "PVLDB 13(7), 2020",
      .media_version = kMediaVersion,
      .persistent = true,
      .discards = false,
      .options = kOptions,
      .create = CreateByKeyFormat<LbTree>,
      .recover = RecoverByKeyFormat<LbTree>,
      .bulk_load = BulkLoadByKeyFormat<LbTree>,
  };
  return kInfo;
}

}  // namespace lodgekv::lbtree
