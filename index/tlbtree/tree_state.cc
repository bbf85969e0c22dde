#include "index/tlbtree/tree_state.h"

#include <algorithm>

namespace lodgekv::tlbtree {

Parameters::Parameters(const OptionValues& options, unsigned most_slots, unsigned most_children)
    : leaf_slots(std::min(static_cast<unsigned>(options.Get("leaf_slots")), most_slots)),
      node_slots(std::min(static_cast<unsigned>(options.Get("node_slots")), most_children)),
      height(static_cast<unsigned>(options.Get("height"))),
      gaps(static_cast<unsigned>(options.Get("gaps"))),
      rebuild_steps(static_cast<unsigned>(options.Get("rebuild_steps"))),
      entry_moving(options.Get("entry_moving") != 0),
      split_entries(options.Get("split_entries") != 0),
      merges(options.Get("merges") != 0),
      root_hints(options.Get("root_hints") != 0),
      top_shortcuts(options.Get("top_shortcuts") != 0) {}

template <class C>
TreeState<C>::TreeState(const EngineContext& context)
    : pool(*context.pool),
      medium(context.pool->medium()),
      parameters(context.options, Node::kSlots, Node::kChildren),
      nodes(pool, pmem::ChunkUse::kNodes, sizeof(Node)),
      anchors(pool, pmem::ChunkUse::kNodes, sizeof(Anchor)),
      slab(pool),
      codec(pool, &slab, context.inline_pairs),
      values(pool, codec),
      search(pool, codec),
      locks(pool, medium.long_fences()),
      intents(pool, slab, pool.engine_area().subspan(media::kIntents, BatchIntents::kRoots)),
      background("tlbtree", medium.tracer()),
      reclaimer(slab, background),
      top(pool, slab, reclaimer, pool.engine_area()[media::kTop],
          {.shortcuts = parameters.top_shortcuts, .root_hints = parameters.root_hints}),
      touch(pool),
      rest(pool, sweep, {&nodes, &anchors}, slab, background) {}

template struct TreeState<Fixed64Codec>;
template struct TreeState<BytesCodec>;

}  // namespace lodgekv::tlbtree
