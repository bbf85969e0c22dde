#include "index/lodgetree/tree_parts.h"

#include <algorithm>
#include <utility>

namespace lodgekv::lodgetree {

namespace {
// A node of uniform keys pins about one log of 1 KiB (README, The log's limit).
constexpr uint64_t kLogBytesOfNode = 2048;
constexpr uint64_t kLeastLogLimit = uint64_t{64} << 20;
constexpr uint64_t kLogShareOfPool = 8;
}  // namespace

template <class C>
TreeParts<C>::TreeParts(const EngineContext& context, unsigned log_entries)
    : pool(*context.pool),
      medium(context.pool->medium()),
      parameters(context.options),
      record_words(pool.bytes()),
      mirrors_records(C::kRecords && parameters.mirror_records && !context.inline_pairs &&
                      record_words.FitsPool()),
      threads(context.recovery_threads),
      leaves(pool, pmem::ChunkUse::kNodes, kLeafBytes),
      slab(pool),
      codec(pool, &slab, context.inline_pairs),
      values(pool, codec),
      texts(dram,
            [this](SeparatorTexts::Batch gone) {
              reclaimer.AfterEpochs([this, gone = std::move(gone)] { texts.Free(gone); });
            }),
      tree(dram, texts),
      nodes(dram),
      log(
          pool, log_entries, [this] { return LogLimit(); }, parameters.log_reuse),
      applied(pool, log),
      horizon(pool, pool.engine_area()[media::kFencedBelow]),
      longest_key(pool),
      spare_source{pool, leaves, slab, longest_key, C::kRecords},
      background("lodgetree", medium.tracer()),
      reclaimer(slab, background, C::kRecords ? horizon.ForReclaimer() : Reclaimer::Horizon{}),
      access(pool, codec),
      planner(parameters, access),
      // The leaves that one commit may create: a node has slots for no more.
      settling(pool, kLeafBytes, kNodeSlots),
      rest(pool, settling, Arenas(), slab, background) {}

template <class C>
LastLevelNode<C>* TreeParts<C>::NewNode() {
  Node* node = nodes.New();
  if constexpr (C::kRecords) {
    if (mirrors_records && node->records.mirror == nullptr) {
      node->records.mirror = static_cast<RecordMirror*>(dram.Allocate(sizeof(RecordMirror)));
    }
  }
  return node;
}

template <class C>
void TreeParts<C>::MakeNodes(std::span<Node*> made) {
  nodes.Make(made);
  if constexpr (C::kRecords) {
    if (!mirrors_records) return;
    auto* mirrors = static_cast<RecordMirror*>(dram.Allocate(made.size() * sizeof(RecordMirror)));
    for (Node* node : made) node->records.mirror = mirrors++;
  }
}

template <class C>
std::vector<pmem::UnitArena*> TreeParts<C>::Arenas() {
  std::vector<pmem::UnitArena*> arenas = log.arenas();
  arenas.push_back(&leaves);
  return arenas;
}

template <class C>
uint64_t TreeParts<C>::LogLimit() const {
  if (parameters.log_limit_bytes != 0) return parameters.log_limit_bytes;
  const uint64_t of_nodes = nodes.count() * kLogBytesOfNode;
  return std::min(std::max(of_nodes, kLeastLogLimit), pool.capacity_bytes() / kLogShareOfPool);
}

template struct TreeParts<Fixed64Codec>;
template struct TreeParts<BytesCodec>;

}  // namespace lodgekv::lodgetree
