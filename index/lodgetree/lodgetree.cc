#include "index/lodgetree/lodgetree.h"

#include <algorithm>

#include "index/lodgetree/commit_closer.h"
#include "index/lodgetree/drain_all.h"
#include "index/lodgetree/held_nodes.h"
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
    {"deferred_close", 1, 0, 1,
     "switch: a flush's commits share the fence of the thread's next write; off: they have their "
     "own"},
    {"mirror_records", 0, 0, 1,
     "switch: DRAM has the records of all slots, so that a read of bytes keys skips the leaf"},
};

constexpr CounterText kCounters[WorkerCounters::kCount] = {
    {"buffer_flushes_total", "Leaf-count flushes of a last-level node's buffer"},
    {"flushed_leaves_total", "Leaves drained by flushes"},
    {"flushed_pairs_total", "Buffered pairs drained by flushes"},
    {"leaf_splits_total", "Leaf splits"},
    {"second_commits_total", "Leaf commits made in two steps because the first had to free slots"},
    {"node_splits_total", "Splits of last-level nodes"},
    {"adding_splits_total", "Splits into more nodes than the node's previous split (write burst)"},
    {"reducing_splits_total", "Splits into fewer nodes than the node's previous split (cooling)"},
    {"superseded_pairs_total", "Buffered pairs replaced before they reached a leaf"},
    {"log_reclaims_total", "Old logs emptied because live logs came near their limit"},
    {"merged_leaves_total", "Sparse leaves that their left neighbour took over"},
    {"nodes_closed_total",
     "Fences for a node whose last leaf commits were still open when it had to change again"},
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
      deferred_close(options.Get("deferred_close") != 0),
      mirror_records(options.Get("mirror_records") != 0),
      log_limit_bytes(options.Get("log_limit_bytes")),
      crowded_below(node_slots + 2 > leaf_slots ? node_slots + 2 - leaf_slots : 0) {}

// A pool begins with one empty leaf, whose low fence is minus infinity.
template <class C>
absl::StatusOr<std::unique_ptr<Engine>> LodgeTree<C>::Create(const EngineContext& context) {
  const auto log_entries = context.options.Get("log_entries");
  std::unique_ptr<LodgeTree> tree(new LodgeTree(context, static_cast<unsigned>(log_entries)));
  const pmem::Offset leaf = tree->parts_.leaves.Allocate(pmem::ReservePolicy::kKeep);
  if (leaf == 0) return absl::ResourceExhaustedError("the pool has no room for a first leaf");
  tree->parts_.log.TakeOwnChunks();
  pmem::Medium& medium = tree->parts_.medium;
  auto* first = tree->parts_.pool.template At<media::Leaf>(leaf);
  medium.StoreZeros(first, offsetof(media::Leaf, slots));
  const auto area = tree->parts_.pool.engine_area();
  medium.Store(area[media::kLogEntries], CheckedWord(log_entries));
  pmem::NawSection section(medium);
  if (!medium.Canary("lodgetree.create.leaf_not_flushed")) {
    section.Flush(first, offsetof(media::Leaf, slots));
  }
  section.Flush(&area[media::kLogEntries], sizeof(pmem::Word));
  section.Commit(area[media::kFirstLeaf], CheckedWord(leaf));

  Node* node = tree->parts_.NewNode();
  node->index_count = 1;
  node->values[0] = leaf;
  if constexpr (C::kRecords) node->separators.low[0] = C::MinusInfinity();
  const typename Inner::Child child{C::MinusInfinity(), node};
  tree->parts_.tree.Build({&child, 1});
  return tree;
}

template <class C>
uint64_t LodgeTree<C>::CountKeys() {
  int64_t keys = 0;
  ForEachNodeFrom(parts_, C::TextOf(C::MinusInfinity()), [&](const Node& node) {
    keys += parts_.access.KeysOf(node);
    return true;
  });
  return static_cast<uint64_t>(keys);
}

template <class C>
uint64_t LodgeTree<C>::AppliedIndex() const {
  return parts_.applied.value();
}

template <class C>
void LodgeTree<C>::VisitCounters(CounterVisitor visitor) const {
  VisitSums(
      kCounters, parts_.workers, [](const Worker<C>& worker) -> auto& { return worker.counters; },
      visitor);
  parts_.log.VisitCounters(visitor);
  const auto gauge = [&](std::string_view name, std::string_view help, uint64_t value) {
    visitor({name, help, CounterKind::kGauge, static_cast<double>(value)});
  };
  gauge("leaves", "Leaves of the tree", parts_.leaves.used_units());
  gauge("last_level_nodes", "Last-level internal nodes", parts_.nodes.count());
  gauge("inner_nodes", "Nodes above the last level", parts_.tree.node_count());
  parts_.background.VisitCounters(visitor);
}

template <class C>
MemoryUse LodgeTree<C>::GetMemoryUse() const {
  MemoryUse use;
  use.medium_bytes =
      parts_.leaves.used_units() * kLeafBytes + parts_.slab.used_bytes() + parts_.log.live_bytes();
  use.dram_bytes = parts_.dram.used_bytes() + parts_.log.dram_bytes();
  return use;
}

template <class C>
RecoveryState LodgeTree<C>::GetRecoveryState() const {
  return parts_.rest.state();
}

// Everything acknowledged is already durable; retired records are freed. If fences are
// instructions, everything buffered is drained to its leaves, so that the next opening replays
// nothing and needs no record that only a log refers to. On a file each drain would wait for the
// disk.
template <class C>
absl::Status LodgeTree<C>::Close() {
  (void)parts_.rest.FinishNow();
  parts_.background.Stop();
  if (!parts_.medium.long_fences()) DrainAllBuffers(parts_);
  parts_.workers.ForEach([&](Worker<C>& worker) {
    CommitCloser<C>(parts_, worker).CloseNow();
    worker.retired.HandTo(parts_.reclaimer);
  });
  (void)parts_.reclaimer.Drain();
  const uint32_t applied_log = parts_.applied.log();
  if (applied_log != AppendLog::kNoLog) parts_.applied.LeaveLog(applied_log);
  if (parts_.medium.failed()) return absl::UnavailableError("a sync of the medium has failed");
  return absl::OkStatus();
}

template <class C>
void LodgeTree<C>::Abandon() {
  parts_.background.Stop();
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
      .verifies_at_use = true,
      .options = kOptions,
      .create = CreateByKeyFormat<LodgeTree>,
      .recover = RecoverByKeyFormat<LodgeTree>,
  };
  return kInfo;
}

}  // namespace lodgekv::lodgetree
