#include "index/lodgetree/lodgetree.h"

#include <algorithm>

#include "index/node/by_key_format.h"
#include "index/pmem/naw_section.h"

namespace lodgekv::lodgetree {

namespace {

constexpr EngineOption kOptions[] = {
    {"node_slots", kNodeSlots, 4, kNodeSlots,
     "slots of a last-level node, index and buffer together"},
    {"leaf_slots", kLeafSlots, 4, kLeafSlots, "slots of a leaf that are used"},
    {"t_node", 2, 1, 8, "leaves that one flush drains, at most (t_node of the paper)"},
    {"t_split", 25, 2, kLeafSlots,
     "pairs to which a flush may fill a leaf; at most leaf_slots (t_split of the paper: 26)"},
    {"log_entries", 30, 2, 1000,
     "entries of a log (L of the paper); taken when the pool is created"},
    {"log_limit_bytes", 0, 0, uint64_t{1} << 40,
     "what live logs may take; 0: 2 KiB for each last-level node, at least 64 MiB, at most 1/8 of "
     "the pool"},
    {"hotness_ratio", 2, 1, 64, "t of the hotness-aware split"},
    {"max_split", 8, 2, kMaxSplit, "nodes that one split makes, at most"},
    {"surrogate_buffer", 1, 0, 1, "switch: buffer pairs in last-level nodes"},
    {"leaf_count_flush", 1, 0, 1, "switch: limit a flush to t_node leaves; off: all of the node"},
    {"split_alone", 0, 0, 1, "switch: a leaf about to split is flushed by itself (the paper)"},
    {"multiple_split", 1, 0, 1, "switch: hotness-aware multiple split; off: always into two"},
    {"use_n_split", 1, 0, 1, "switch: split without a log; off: the leaf is written aside first"},
    {"log_reuse", 1, 0, 1, "switch: a partition keeps free logs; off: they all go back at once"},
};

// A node of uniform keys pins about one log of 1 KiB (README, The log's limit).
constexpr uint64_t kLogBytesOfNode = 2048;
constexpr uint64_t kLeastLogLimit = uint64_t{64} << 20;
constexpr uint64_t kLogShareOfPool = 8;

unsigned CrowdedBelow(const Parameters& p) {
  return p.node_slots + 2 > p.leaf_slots ? p.node_slots + 2 - p.leaf_slots : 0;
}

constexpr CounterText kCounters[WorkerCounters::kCount] = {
    {"buffer_flushes_total", "Leaf-count flushes of a last-level node's buffer"},
    {"flushed_leaves_total", "Leaves drained by flushes"},
    {"flushed_pairs_total", "Buffered pairs drained by flushes"},
    {"leaf_splits_total", "Leaf splits"},
    {"second_commits_total", "Leaf commits made in two steps because the first had to free slots"},
    {"node_splits_total", "Splits of last-level nodes"},
    {"adding_splits_total", "Splits into more nodes than the time before (write burst)"},
    {"reducing_splits_total", "Splits into fewer nodes than the time before (cooling)"},
    {"superseded_pairs_total", "Buffered pairs replaced before they reached a leaf"},
    {"log_reclaims_total", "Old logs emptied because live logs came near their limit"},
    {"merged_leaves_total", "Sparse leaves that their left neighbour took over"},
};

}  // namespace

Parameters::Parameters(const OptionValues& options)
    : node_slots(static_cast<unsigned>(options.Get("node_slots"))),
      leaf_slots(static_cast<unsigned>(options.Get("leaf_slots"))),
      t_node(static_cast<unsigned>(options.Get("t_node"))),
      t_split(std::min(static_cast<unsigned>(options.Get("t_split")), leaf_slots)),
      log_entries(static_cast<unsigned>(options.Get("log_entries"))),
      hotness_ratio(static_cast<unsigned>(options.Get("hotness_ratio"))),
      max_split(static_cast<unsigned>(options.Get("max_split"))),
      surrogate_buffer(options.Get("surrogate_buffer") != 0),
      leaf_count_flush(options.Get("leaf_count_flush") != 0),
      split_alone(options.Get("split_alone") != 0),
      multiple_split(options.Get("multiple_split") != 0),
      use_n_split(options.Get("use_n_split") != 0),
      log_reuse(options.Get("log_reuse") != 0),
      log_limit_bytes(options.Get("log_limit_bytes")) {}

template <class C>
LodgeTree<C>::LodgeTree(const EngineContext& context, unsigned log_entries)
    : pool_(*context.pool),
      medium_(context.pool->medium()),
      parameters_(context.options),
      threads_(context.recovery_threads),
      crowded_below_(CrowdedBelow(parameters_)),
      leaves_(pool_, pmem::ChunkUse::kNodes, kLeafBytes),
      slab_(pool_),
      codec_(pool_, &slab_, context.inline_pairs),
      values_(pool_, codec_),
      texts_(dram_,
             [this](SeparatorTexts::Batch gone) {
               reclaimer_.AfterEpochs([this, gone = std::move(gone)] { texts_.Free(gone); });
             }),
      tree_(dram_, texts_),
      log_(
          pool_, log_entries, [this] { return LogLimit(); }, parameters_.log_reuse),
      applied_(pool_, log_),
      horizon_(pool_),
      longest_key_(pool_),
      reclaimer_(slab_, medium_.tracer() != nullptr,
                 C::kRecords ? horizon_.ForReclaimer() : Reclaimer::Horizon{}) {}

template <class C>
uint64_t LodgeTree<C>::LogLimit() const {
  if (parameters_.log_limit_bytes != 0) return parameters_.log_limit_bytes;
  const uint64_t of_nodes = node_count_.load(std::memory_order_relaxed) * kLogBytesOfNode;
  return std::min(std::max(of_nodes, kLeastLogLimit), pool_.capacity_bytes() / kLogShareOfPool);
}

// A pool begins with one empty leaf, whose low fence is minus infinity.
template <class C>
absl::StatusOr<std::unique_ptr<Engine>> LodgeTree<C>::Create(const EngineContext& context) {
  const auto log_entries = context.options.Get("log_entries");
  std::unique_ptr<LodgeTree> tree(new LodgeTree(context, static_cast<unsigned>(log_entries)));
  const pmem::Offset leaf = tree->leaves_.Allocate(pmem::Reserve::kKeep);
  if (leaf == 0) return absl::ResourceExhaustedError("the pool has no room for a first leaf");
  tree->log_.TakeOwnChunks();
  pmem::Medium& medium = tree->medium_;
  auto* first = tree->pool_.template At<media::Leaf>(leaf);
  medium.StoreZeros(first, offsetof(media::Leaf, slots));
  const auto area = tree->pool_.engine_area();
  medium.Store(area[media::kLogEntries], CheckedWord(log_entries));
  pmem::NawSection section(medium);
  if (!medium.Canary("lodgetree.create.leaf_not_flushed")) {
    section.Stage(first, offsetof(media::Leaf, slots));
  }
  section.Stage(&area[media::kLogEntries], sizeof(pmem::Word));
  section.Commit(area[media::kFirstLeaf], CheckedWord(leaf));

  Node* node = tree->NewNode();
  node->index_count = 1;
  node->values[0] = leaf;
  if constexpr (C::kRecords) node->separators.low[0] = C::MinusInfinity();
  const typename Inner::Child child{C::MinusInfinity(), node};
  tree->tree_.Build({&child, 1});
  return tree;
}

// Of its leaves and its buffer.
template <class C>
int64_t LodgeTree<C>::KeysOf(const Node& node) const {
  int64_t keys = 0;
  for (unsigned leaf = 0; leaf < node.index_count; ++leaf) keys += node.leaf_count[leaf];
  for (unsigned i = node.buf_start(); i < kNodeSlots; ++i) {
    const bool in_leaf = FindPairInLeaf(&node, node.leaf_count[i], node.BufferedPair(i)) >= 0;
    if (node.IsTombstone(i)) {
      keys -= in_leaf ? 1 : 0;
    } else {
      keys += in_leaf ? 0 : 1;
    }
  }
  return keys;
}

template <class C>
uint64_t LodgeTree<C>::CountKeys() {
  int64_t keys = 0;
  ForEachNodeFrom(C::TextOf(C::MinusInfinity()), [&](const Node& node) {
    keys += KeysOf(node);
    return true;
  });
  return static_cast<uint64_t>(keys);
}

template <class C>
uint64_t LodgeTree<C>::AppliedIndex() const {
  return applied_.value();
}

template <class C>
void LodgeTree<C>::VisitCounters(CounterVisitor visitor) const {
  VisitSums(
      kCounters, workers_, [](const Worker& worker) -> auto& { return worker.counters; }, visitor);
  const auto log = log_.counters();
  const auto gauge = [&](std::string_view name, std::string_view help, uint64_t value) {
    visitor({name, help, CounterKind::kGauge, static_cast<double>(value)});
  };
  visitor({"logs_opened_total", "Logs opened in all partitions", CounterKind::kCounter,
           static_cast<double>(log.logs_opened)});
  visitor({"logs_reused_total", "Logs opened in space that a partition had freed",
           CounterKind::kCounter, static_cast<double>(log.logs_reused)});
  gauge("log_live_bytes", "Bytes of logs with valid entries", log_.live_bytes());
  gauge("log_limit_bytes",
        "Bytes that live logs may take; from seven eighths on old ones are emptied",
        log_.limit_bytes());
  gauge("leaves", "Leaves of the tree", leaves_.used_units());
  gauge("last_level_nodes", "Last-level internal nodes",
        node_count_.load(std::memory_order_relaxed));
  gauge("inner_nodes", "Nodes above the last level", tree_.node_count());
}

template <class C>
MemoryUse LodgeTree<C>::GetMemoryUse() const {
  MemoryUse use;
  use.medium_bytes = leaves_.used_units() * kLeafBytes + slab_.used_bytes() + log_.live_bytes();
  use.dram_bytes = dram_.used_bytes() + log_.dram_bytes();
  return use;
}

// Everything acknowledged is durable already; retired records go back. Where that is quick, what is
// buffered goes to its leaves, so that the next opening replays nothing and needs no record that
// only a log knows. On a file each flush would wait for the disk.
template <class C>
absl::Status LodgeTree<C>::Close() {
  if (!medium_.long_fences()) FlushAllBuffers(threads_);
  workers_.ForEach([&](Worker& worker) { worker.retired.HandTo(reclaimer_); });
  (void)reclaimer_.Drain();
  const uint32_t applied_log = applied_.log();
  if (applied_log != PartitionedVersionLog::kNoLog) applied_.LeaveLog(applied_log);
  if (medium_.failed()) return absl::UnavailableError("a sync of the medium has failed");
  return absl::OkStatus();
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

const EngineInfo& GetEngineInfo() {
  static constexpr EngineInfo kInfo = {
      .name = "lodgetree",
      .summary = "B+-tree whose last-level nodes buffer writes in their free slots",
      .paper = "LodgeTree: last-level distributed and surrogate buffer tree for NVM",
      .media_version = kMediaVersion,
      .persistent = true,
      .discards = false,
      .options = kOptions,
      .create = CreateByKeyFormat<LodgeTree>,
      .recover = RecoverByKeyFormat<LodgeTree>,
  };
  return kInfo;
}

}  // namespace lodgekv::lodgetree
