// Recovery from end to end (recovery.h).
#include "index/lodgetree/recovery.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace lodgekv::lodgetree {

template <class C>
absl::Status LodgeTree<C>::Recovery::ReadEngineArea() {
  uint64_t longest_key;
  uint64_t fenced_below;
  if (!ReadChecked(pool_.engine_area()[media::kLongestKey].Load(), &longest_key) ||
      !ReadChecked(pool_.engine_area()[media::kFencedBelow].Load(), &fenced_below) ||
      !ReadChecked(pool_.engine_area()[media::kFirstLeaf].Load(), &first_leaf_)) {
    return Damaged("a word of the engine area with wrong check bits",
                   pool_.OffsetOf(pool_.engine_area().data()));
  }
  parts_.longest_key.Restore(longest_key);
  parts_.horizon.Restore(fenced_below);
  return absl::OkStatus();
}

// Replay has split nodes, but merged none: the nodes that were built still begin where they began.
template <class C>
void LodgeTree<C>::Recovery::CountKeys() {
  constexpr size_t kNodesPerTask = 1024;
  std::atomic<int64_t> keys{0};
  const size_t tasks = PartsOf(nodes_.size(), kNodesPerTask);
  (void)Parallel(tasks, [&](size_t task) {
    const Part part = Part::Of(nodes_.size(), tasks, task);
    int64_t here = 0;
    ForEachNodeFrom(parts_, C::TextOf(nodes_[part.begin]->low()), [&](const Node& node) {
      if (part.end < nodes_.size() && &node == nodes_[part.end]) return false;
      here += parts_.access.KeysOf(node);
      return true;
    });
    keys += here;
    return absl::OkStatus();
  });
  report_.keys = static_cast<uint64_t>(keys.load());
}

template <class C>
absl::Status LodgeTree<C>::Recovery::Run() {
  const auto start = std::chrono::steady_clock::now();
  report_.clean = pool_.was_clean();
  report_.threads = std::max(1u, context_.recovery_threads);
  const std::vector<pmem::Chunk> chunks = pool_.Chunks();
  parts_.leaves.Adopt(chunks);
  parts_.log.Adopt(chunks);
  parts_.slab.Adopt();
  absl::Status status = ReadEngineArea();
  if (status.ok()) status = BuildNodes();
  if (status.ok() && !report_.clean) BeginSettling();
  // What the chain has not visited: the logs.
  if (status.ok()) status = pool_.contents().FinishVerify();
  if (status.ok()) status = ReplayLogs();
  if (!status.ok()) return status;
  CountKeys();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report_.milliseconds = took.count();
  parts_.rest.Start(report_, start, context_.on_recovery_end);
  return absl::OkStatus();
}

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> LodgeTree<C>::Recover(const EngineContext& context,
                                                              RecoveryReport* report) {
  const pmem::Word& word = context.pool->engine_area()[media::kLogEntries];
  uint64_t log_entries;
  if (!ReadChecked(word.Load(), &log_entries) || log_entries < 2 || log_entries > 1000) {
    return Damaged("a size of logs that no pool has", context.pool->OffsetOf(&word));
  }
  std::unique_ptr<LodgeTree> tree(new LodgeTree(context, static_cast<unsigned>(log_entries)));
  const absl::Status status = Recovery(tree->parts_, context, report).Run();
  if (!status.ok()) return status;
  return tree;
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
