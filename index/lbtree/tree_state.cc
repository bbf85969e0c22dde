#include "index/lbtree/tree_state.h"

#include <utility>

#include "index/lbtree/group.h"

namespace lodgekv::lbtree {

Parameters::Parameters(const OptionValues& options)
    : leaf_slots(static_cast<unsigned>(options.Get("leaf_slots"))),
      entry_moving(options.Get("entry_moving") != 0),
      fingerprints(options.Get("fingerprints") != 0),
      logless_split(options.Get("logless_split") != 0),
      unlink_leaves(options.Get("unlink_leaves") != 0) {}

template <class C>
TreeState<C>::TreeState(const EngineContext& context, unsigned leaf_blocks)
    : pool(*context.pool),
      medium(context.pool->medium()),
      parameters(context.options),
      blocks(leaf_blocks),
      usable_slots((uint32_t{1} << parameters.leaf_slots) - 1),
      leaves(pool, pmem::ChunkUse::kNodes, static_cast<uint32_t>(leaf_bytes())),
      slab(pool),
      codec(pool, &slab, context.inline_pairs),
      values(pool, codec),
      texts(dram,
            [this](SeparatorTexts::Batch gone) {
              reclaimer.AfterEpochs([this, gone = std::move(gone)] { texts.Free(gone); });
            }),
      locks(pool, medium.long_fences()),
      inner(dram, texts, LeafAccess{{}, &locks, leaf_blocks}),
      intents(pool, slab, pool.engine_area().subspan(media::kIntents, BatchIntents::kRoots)),
      background("lbtree", medium.tracer()),
      reclaimer(slab, background),
      // A group commits the leaves that it splits off one leaf by one store of that leaf's header.
      settling(pool, leaf_bytes(), Group<C>::kMostLeaves),
      rest(pool, settling, {&leaves}, slab, background) {}

template struct TreeState<Fixed64Codec>;
template struct TreeState<BytesCodec>;

}  // namespace lodgekv::lbtree
