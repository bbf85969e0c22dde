#include "index/sptree/tree_state.h"

#include <algorithm>
#include <utility>

namespace lodgekv::sptree {

namespace {
// A split commits in the leaf to the left of the one that it creates.
constexpr size_t kReach = 1;
constexpr unsigned kLogEntries = 30;
// A start reads all of it (pending_log.h). Buffers at the default limit of their memory have
// entries of 200 bytes a leaf. With 1 KiB and 10 million keys an insert flushed 5 % fewer lines,
// and the start took twice as long.
constexpr uint64_t kLogBytesOfLeaf = 256;
constexpr uint64_t kLeastLogLimit = uint64_t{64} << 20;
constexpr uint64_t kLogShareOfPool = 8;
// A small tree's leaves are few, and each may be written to.
constexpr uint64_t kLeastBufferLimit = uint64_t{64} << 10;
}  // namespace

Parameters::Parameters(const OptionValues& options)
    : leaf_slots(static_cast<unsigned>(options.Get("leaf_slots"))),
      filter(options.Get("filter") != 0),
      tags(options.Get("tags") != 0),
      home_lines(options.Get("home_lines") != 0 && options.Get("write_buffer_pairs") == 0),
      seqs(options.Get("seqs") != 0),
      merge(options.Get("merge") != 0),
      two_phase(options.Get("two_phase") != 0),
      backup(options.Get("backup") != 0),
      lazy_replay(options.Get("lazy_replay") != 0),
      write_buffer_pairs(static_cast<unsigned>(options.Get("write_buffer_pairs"))),
      write_buffer_share(static_cast<unsigned>(options.Get("write_buffer_share"))) {}

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
      buffer_pool(dram, [this] { return BufferLimit(); }),
      commits(medium.long_fences()),
      top(dram),
      log(pool, kLogEntries, [this] { return LogLimit(); }),
      horizon(pool, pool.engine_area()[media::kFencedBelow]),
      intents(pool, slab, pool.engine_area().subspan(media::kIntents, BatchIntents::kRoots)),
      background("sptree", medium.tracer()),
      reclaimer(slab, background,
                C::kRecords && buffers() ? horizon.ForReclaimer() : Reclaimer::Horizon{}),
      backup(pool, slab, bnodes, reclaimer, pool.engine_area()[media::kBackup]),
      settling(pool, sizeof(media::Bnode), kReach),
      rest(pool, sweep, Arenas(), slab, background) {}

template <class C>
std::vector<pmem::UnitArena*> TreeState<C>::Arenas() {
  std::vector<pmem::UnitArena*> arenas = log.arenas();
  arenas.push_back(&bnodes);
  return arenas;
}

template <class C>
uint64_t TreeState<C>::LeafCount() const {
  const uint64_t known = mnodes.count();
  return sweep.unfinished() ? std::max<uint64_t>(known, backup.entries()) : known;
}

template <class C>
uint64_t TreeState<C>::LogLimit() const {
  const uint64_t of_leaves = LeafCount() * kLogBytesOfLeaf;
  return std::min(std::max(of_leaves, kLeastLogLimit), pool.capacity_bytes() / kLogShareOfPool);
}

template <class C>
uint64_t TreeState<C>::BufferLimit() const {
  const uint64_t of_leaves = LeafCount() * sizeof(media::Bnode);
  return std::max(kLeastBufferLimit, of_leaves * parameters.write_buffer_share / 100);
}

template struct TreeState<Fixed64Codec>;
template struct TreeState<BytesCodec>;

}  // namespace lodgekv::sptree
