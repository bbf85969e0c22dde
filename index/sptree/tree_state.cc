#include "index/sptree/tree_state.h"

#include <utility>

namespace lodgekv::sptree {

namespace {
// A split commits in the leaf to the left of the one that it creates.
constexpr size_t kReach = 1;
}  // namespace

Parameters::Parameters(const OptionValues& options)
    : leaf_slots(static_cast<unsigned>(options.Get("leaf_slots"))),
      filter(options.Get("filter") != 0),
      tags(options.Get("tags") != 0),
      seqs(options.Get("seqs") != 0),
      merge(options.Get("merge") != 0) {}

template <class C>
TreeState<C>::TreeState(const EngineContext& context)
    : pool(*context.pool),
      medium(context.pool->medium()),
      parameters(context.options),
      bnodes(pool, pmem::ChunkUse::kNodes, sizeof(media::Bnode)),
      slab(pool),
      codec(pool, &slab, context.inline_pairs),
      values(pool, codec),
      texts(dram,
            [this](SeparatorTexts::Batch gone) {
              reclaimer.AfterEpochs([this, gone = std::move(gone)] { texts.Free(gone); });
            }),
      mnodes(dram),
      commits(medium.long_fences()),
      top(dram, texts),
      intents(pool, slab, pool.engine_area().subspan(media::kIntents, BatchIntents::kRoots)),
      background("sptree", medium.tracer()),
      reclaimer(slab, background),
      settling(pool, sizeof(media::Bnode), kReach),
      rest(pool, settling, {&bnodes}, slab, background) {}

template struct TreeState<Fixed64Codec>;
template struct TreeState<BytesCodec>;

}  // namespace lodgekv::sptree
