#include "index/sstree/tree_state.h"

#include <atomic>
#include <utility>
#include <vector>

namespace lodgekv::sstree {

namespace {

// A key's answer depends on the leaf to the left of its own, from which a split may have copied it,
// with all of its subnodes.
constexpr size_t kReach = kMaxSubnodes;

}  // namespace

Parameters::Parameters(const OptionValues& options)
    : subnodes(static_cast<unsigned>(options.Get("subnodes"))),
      leaf_slots(static_cast<unsigned>(options.Get("leaf_slots"))),
      head_replacement(options.Get("head_replacement") != 0),
      head_fingerprints(options.Get("head_fingerprints") != 0),
      delegated_fingerprints(options.Get("delegated_fingerprints") != 0),
      overflow_filter(options.Get("overflow_filter") != 0),
      item_movement(options.Get("item_movement") != 0),
      several_items(options.Get("several_items") != 0),
      reclamation(options.Get("reclamation") != 0),
      entry_moving(options.Get("entry_moving") != 0),
      fill_holes(options.Get("fill_holes") != 0),
      drop_leaves(options.Get("drop_leaves") != 0),
      head_hints(options.Get("head_hints") != 0) {}

template <class C>
TreeState<C>::TreeState(const EngineContext& context)
    : pool(*context.pool),
      medium(context.pool->medium()),
      parameters(context.options),
      subnodes(pool, pmem::ChunkUse::kNodes, sizeof(media::Subnode), pmem::ZeroHeads::kWhenTaken),
      slab(pool),
      codec(pool, &slab, context.inline_pairs),
      values(pool, codec),
      texts(dram,
            [this](SeparatorTexts::Batch gone) {
              reclaimer.AfterEpochs([this, gone = std::move(gone)] { texts.Free(gone); });
            }),
      commits(medium.long_fences()),
      inner(dram, texts, LeafAccess{{}, pool.base(), &leaf_range, parameters.head_hints}),
      intents(pool, slab, pool.engine_area().subspan(media::kIntents, BatchIntents::kRoots)),
      background("sstree", medium.tracer()),
      reclaimer(slab, background),
      settling(pool, sizeof(media::Subnode), kReach),
      rest(pool, settling, {&subnodes}, slab, background) {}

uint64_t ThreadNumber() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

// A fence covers the flushes of its own thread: what a thread that has ended left is flushed anew,
// unless the space of the line has gone back to the pool.
template <class C>
void TreeState<C>::FreeCutOff(Worker& worker) {
  if (medium.failed()) return;
  std::vector<Worker::CutOff> kept;
  for (Worker::CutOff cut : worker.cut_off) {
    if (cut.thread == ThreadNumber()) {
      subnodes.Free(cut.subnode);
      continue;
    }
    (void)subnodes.FlushHead(pool.OffsetOf(cut.before));
    cut.thread = ThreadNumber();
    kept.push_back(cut);
  }
  worker.cut_off.swap(kept);
}

template struct TreeState<Fixed64Codec>;
template struct TreeState<BytesCodec>;

}  // namespace lodgekv::sstree
