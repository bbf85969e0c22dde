#include "tests/crash/scenarios/pool_scenario.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/pool_header.h"
#include "index/pmem/pool.h"
#include "tests/crash/lab/high_numbers.h"
#include "tests/crash/lab/image_set.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

using pmem::Chunk;
using pmem::Offset;
using pmem::Pool;

constexpr uint64_t kBytes = uint64_t{128} << 10;
constexpr uint32_t kUnit = 256;
constexpr uint64_t kExhaustiveUpTo = 64;
constexpr unsigned kSamples = 8;
constexpr int kRuns = 12;
constexpr int kSteps = 30;

// The value before an operation and after it, as far as the pool's user can tell.
template <class T>
struct Promise {
  T before{};
  T after{};

  bool Holds(const T& found) const { return found == before || found == after; }
  void Done() { before = after; }
};

// Of a process with durability `process`, which flushes nothing.
class StoresOnly final : public pmem::Tracer {
 public:
  explicit StoresOnly(CrashTracer& to) : to_(to) {}
  void OnStore(const void* dst, size_t bytes, bool) override { to_.OnStore(dst, bytes, false); }
  void OnFlush(const void*) override {}
  void OnFence() override {}
  void OnCrashPoint(std::string_view name) override { to_.OnCrashPoint(name); }
  bool OnCanary(std::string_view name) override { return to_.OnCanary(name); }

 private:
  CrashTracer& to_;
};

class Scenario {
 public:
  Scenario(CrashModel model, Fault fault)
      : model_(model), fault_(fault), memory_(kBytes), image_(kBytes) {
    memory_.FillWithGarbage(1);
  }

  PoolOutcome Run(uint32_t generation) {
    if (generation > 0) MakeOld(generation);
    tracer_ = std::make_unique<CrashTracer>(memory_.span(), fault_);
    stores_only_ = std::make_unique<StoresOnly>(*tracer_);
    tracer_->before_fence = [this] { TryImages(); };
    const auto options = OptionsOf(memory_, tracer_.get());
    auto pool =
        Take(identity_.before ? Pool::OpenArena(options) : Pool::CreateArena(options, Identity()));
    if (pool == nullptr) return Result();
    identity_.after = true;
    Done();
    created_.after = true;
    pool->MarkEngineCreated();
    Done();
    for (int run = 0; run < kRuns && !result_.problem; ++run) {
      for (int i = 0; i < kSteps && !result_.problem; ++i) Step(*pool);
      if (!result_.problem && run % 2 == 0) Close(*pool);
      pool.reset();
      pool = Reopen(/*flushes=*/run % 3 != 0);
      if (pool == nullptr) break;
      Done();
    }
    return Result();
  }

 private:
  static pmem::PoolIdentity Identity() {
    pmem::PoolIdentity identity;
    identity.engine = "test";
    identity.pool_id[0] = 1;
    return identity;
  }

  Pool::ArenaOptions OptionsOf(const ArenaMemory& memory, pmem::Tracer* tracer) const {
    Pool::ArenaOptions options;
    options.memory = memory.span();
    options.chunk_bytes = 4096;
    options.strict_order = model_ == CrashModel::kTornWords;
    options.tracer = tracer;
    return options;
  }

  // `flushes`: durability is not `process`.
  std::unique_ptr<Pool> Reopen(bool flushes) {
    // Half of those closed cleanly are put to use by the first step that changes them.
    auto options = OptionsOf(memory_, tracer_.get());
    options.verify_at_use = random_.OneIn(2);
    if (!flushes) {
      flushes_ = false;
      options.process_durability = true;
      options.tracer = stores_only_.get();
      return Take(Pool::OpenArena(options));
    }
    if (!flushes_) tracer_->before_fence = [this] { KillWhileFlushing(); };
    std::unique_ptr<Pool> pool = Take(Pool::OpenArena(options));
    tracer_->before_fence = [this] { TryImages(); };
    flushes_ = true;
    return pool;
  }

  // The process that flushes what another has left is killed, and one more opens the pool: then all
  // is durable.
  void KillWhileFlushing() {
    if (result_.problem) return;
    const ArenaMemory seen_by_next = memory_.Copy();
    CrashTracer tracer(seen_by_next.span(), fault_, tracer_.get());
    if (Take(Pool::OpenArena(OptionsOf(seen_by_next, &tracer))) != nullptr) TryImagesOf(tracer);
  }

  // Makes a pool whose state was changed `generation` times.
  void MakeOld(uint32_t generation) {
    (void)Take(Pool::CreateArena(OptionsOf(memory_, nullptr), Identity()));
    SetStateGeneration(memory_, generation);
    identity_ = {true, true};
  }

  std::unique_ptr<Pool> Take(absl::StatusOr<std::unique_ptr<Pool>> pool) {
    if (pool.ok()) return *std::move(pool);
    if (!result_.problem) result_.problem = pool.status().ToString();
    return nullptr;
  }

  PoolOutcome Result() {
    tracer_->before_fence = nullptr;
    result_.crash_points = tracer_->crash_points();
    return std::move(result_);
  }

  // From here on the operation's promise holds.
  void Done() {
    identity_.Done();
    created_.Done();
    applied_.Done();
    rows_.Done();
    large_.Done();
    sequence_.Done();
    TryImages();
  }

  void Step(Pool& pool) {
    switch (random_.Below(7)) {
      case 0: TakeNumbers(pool); break;
      case 1: pool.PersistAppliedIndex(++applied_.after); break;
      case 2: Acquire(pool); break;
      case 3: Release(pool); break;
      case 4: AddLarge(pool); break;
      case 5: DropLarge(pool); break;
      default: StoreWithoutFlush(pool); break;
    }
    Done();
  }

  void TakeNumbers(Pool& pool) {
    const uint64_t count = 1 + random_.Below(3 << 20);
    sequence_.after = pool.TakeSequence(count) + count;
  }

  void Acquire(Pool& pool) {
    acquiring_ = true;
    zeroing_ = random_.OneIn(2);
    const auto chunk =
        pool.AcquireChunk(pmem::ChunkUse::kNodes, kUnit, pmem::ReservePolicy::kKeep, zeroing_);
    acquiring_ = false;
    if (!chunk.ok()) return;
    if (zeroing_) zeroed_.insert(chunk->index);
    if (!rows_.after.insert(chunk->index).second) {
      result_.problem = absl::StrCat("chunk ", chunk->index, " is handed out twice");
    }
  }

  void Release(Pool& pool) {
    if (rows_.after.empty()) return;
    const uint32_t row =
        *std::next(rows_.after.begin(), static_cast<ptrdiff_t>(random_.Below(rows_.after.size())));
    rows_.after.erase(row);
    pool.ReleaseChunk(row);
  }

  // As a tree may in space that is free: a power cut may take it, also after a clean close.
  void StoreWithoutFlush(Pool& pool) {
    if (rows_.after.empty() || !pool.contents().FinishVerify().ok()) return;
    const std::vector<Chunk> chunks = pool.Chunks();
    const Chunk& chunk = chunks[random_.Below(chunks.size())];
    const uint64_t unit = chunk.begin + random_.Below(chunk.bytes / kUnit) * kUnit;
    pool.medium().Store(*pool.At<pmem::Word>(unit + pmem::kLineBytes), random_.Next());
  }

  void AddLarge(Pool& pool) {
    const Offset offset = pool.ReserveLarge(1 + random_.Below(20'000), pmem::ReservePolicy::kKeep);
    if (offset == 0) return;
    if (random_.OneIn(3)) return pool.FreeLarge(offset);
    large_.after.insert(offset);
    pool.CommitLarge(offset);
  }

  void DropLarge(Pool& pool) {
    if (large_.after.empty()) return;
    const Offset offset = *std::next(large_.after.begin(),
                                     static_cast<ptrdiff_t>(random_.Below(large_.after.size())));
    large_.after.erase(offset);
    pool.FreeLarge(offset);
  }

  void Close(Pool& pool) {
    const absl::Status status = pool.Close(true);
    if (!status.ok() && !result_.problem) result_.problem = status.ToString();
    Done();
  }

  void TryImages() {
    if (!result_.problem && flushes_) TryImagesOf(*tracer_);
  }

  void TryImagesOf(const CrashTracer& tracer) {
    const ImageSet images(tracer, model_);
    images.Visit(kExhaustiveUpTo, kSamples, random_, [&](const ImageSet::Picks& picks) {
      ++result_.images;
      std::memcpy(image_.span().data(), tracer.durable().data(), kBytes);
      images.Apply(picks, image_.span().data());
      result_.problem = Check();
      return !result_.problem.has_value();
    });
  }

  std::optional<std::string> Check() const {
    const auto opened = Pool::OpenArena(OptionsOf(image_, nullptr));
    if (!opened.ok()) {
      if (!identity_.before && !HasIdentity()) return {};
      return absl::StrCat("it cannot be opened: ", opened.status().ToString());
    }
    Pool& pool = **opened;
    if (pool.PeekSequence() < sequence_.before) {
      return absl::StrCat("number ", pool.PeekSequence(), " will be handed out again");
    }
    if (!applied_.Holds(pool.applied_index())) {
      return absl::StrCat("applied index ", pool.applied_index(), " instead of ", applied_.before);
    }
    if (created_.before && !pool.engine_created()) return "the engine is not there any more";
    if (auto problem = CheckSpace(pool)) return problem;
    const auto again = Pool::OpenArena(OptionsOf(image_, nullptr));
    if (again.ok()) return {};
    return absl::StrCat("after a second crash it cannot be opened: ", again.status().ToString());
  }

  std::optional<std::string> CheckSpace(const Pool& pool) const {
    std::set<uint32_t> rows;
    for (const Chunk& chunk : pool.Chunks()) {
      rows.insert(chunk.index);
      const bool zeroed = zeroed_.contains(chunk.index) ||
                          (acquiring_ && zeroing_ && !rows_.before.contains(chunk.index));
      if (zeroed && HoldsHeads(pool, chunk)) {
        return absl::StrCat("chunk ", chunk.index, " is in use with what lay there before");
      }
      if (chunk.unit_bytes != kUnit || chunk.use != pmem::ChunkUse::kNodes) {
        return absl::StrCat("chunk ", chunk.index, " has another use");
      }
    }
    // Which row is taken is not known in advance.
    std::set<uint32_t> extra;
    for (const uint32_t row : rows) {
      if (!rows_.before.contains(row)) extra.insert(row);
    }
    const bool acquired = acquiring_ && extra.size() == 1 && rows.size() == rows_.before.size() + 1;
    if (!rows_.Holds(rows) && !acquired) {
      return absl::StrCat(rows.size(), " chunks are in use instead of ", rows_.before.size());
    }
    const std::vector<Offset> list = pool.LargeObjects();
    if (large_.Holds({list.begin(), list.end()})) return {};
    return absl::StrCat(list.size(), " large objects instead of ", large_.before.size());
  }

  // Nobody writes into the first line of a unit.
  static bool HoldsHeads(const Pool& pool, const Chunk& chunk) {
    static constexpr char kZero[pmem::kLineBytes] = {};
    for (uint64_t at = 0; at + kUnit <= chunk.bytes; at += kUnit) {
      if (std::memcmp(pool.At<char>(chunk.begin + at), kZero, sizeof kZero) != 0) return true;
    }
    return false;
  }

  // A complete identity makes the file count as a pool.
  bool HasIdentity() const {
    pmem::media::Identity identity;
    std::memcpy(&identity, image_.span().data(), sizeof identity);
    return identity.magic == pmem::media::kMagic && pmem::IdentityCrc(identity) == identity.crc;
  }

  const CrashModel model_;
  const Fault fault_;
  ArenaMemory memory_;
  ArenaMemory image_;
  std::unique_ptr<CrashTracer> tracer_;
  std::unique_ptr<StoresOnly> stores_only_;
  bool flushes_ = true;  // else a power cut may take anything
  Random random_{"the pool's protocols"};
  Promise<bool> identity_;
  Promise<bool> created_;
  Promise<uint64_t> applied_;
  Promise<uint64_t> sequence_;  // numbers below it were taken
  Promise<std::set<uint32_t>> rows_;
  Promise<std::set<Offset>> large_;
  bool acquiring_ = false;
  bool zeroing_ = false;       // with zeroed heads
  std::set<uint32_t> zeroed_;  // rows that were so taken
  PoolOutcome result_;
};

}  // namespace

PoolOutcome RunPoolScenario(CrashModel model, Fault fault, uint32_t generation) {
  return Scenario(model, fault).Run(generation);
}

}  // namespace lodgekv::test
