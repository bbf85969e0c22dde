#include "tests/crash/scenarios/generations_scenario.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/node/epoch.h"
#include "index/node/two_generations.h"
#include "index/pmem/pool.h"
#include "index/pmem/testing/silent_tracer.h"
#include "tests/crash/lab/image_set.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

using pmem::Offset;
using pmem::Pool;

constexpr uint64_t kBytes = uint64_t{128} << 10;
constexpr uint64_t kExhaustiveUpTo = 64;
constexpr unsigned kSamples = 8;
constexpr unsigned kSteps = 120;
constexpr size_t kMostRecords = 12;
// In units of the slab, which is committed by nothing, and as objects of their own.
constexpr uint64_t kLargestSmall = 1700;
constexpr uint64_t kLargest = 9000;

// What a generation holds, told by its number and length.
struct Promised {
  uint64_t number = 0;  // 0: there is none
  uint64_t bytes = 0;

  char ByteAt(uint64_t at) const { return static_cast<char>(MixBits(number << 32 | at)); }
  std::vector<char> Content() const {
    std::vector<char> content(bytes);
    for (uint64_t i = 0; i < bytes; ++i) content[i] = ByteAt(i);
    return content;
  }
  bool Is(TwoGenerations::Content found) const {
    if (number == 0 || found.data == nullptr) return number == 0 && found.data == nullptr;
    if (found.bytes != bytes) return false;
    const std::vector<char> content = Content();
    return std::memcmp(content.data(), found.data, bytes) == 0;
  }
};

// A pool with what a tree would have of it.
struct Opened {
  std::unique_ptr<Pool> pool;
  std::unique_ptr<pmem::RecordSlab> slab;
  std::unique_ptr<pmem::SilentTracer> in_place = std::make_unique<pmem::SilentTracer>();
  std::unique_ptr<BackgroundWorker> worker;
  std::unique_ptr<Reclaimer> reclaimer;
  std::unique_ptr<TwoGenerations> generations;

  explicit Opened(std::unique_ptr<Pool> of_pool)
      : pool(std::move(of_pool)),
        slab(std::make_unique<pmem::RecordSlab>(*pool)),
        worker(std::make_unique<BackgroundWorker>("generations", in_place.get())),
        reclaimer(std::make_unique<Reclaimer>(*slab, *worker)),
        generations(
            std::make_unique<TwoGenerations>(*pool, *slab, *reclaimer, pool->engine_area()[0])) {}

  absl::Status Recover() {
    slab->Adopt();
    const absl::Status status = generations->Recover("test");
    if (status.ok()) slab->FinishMark();
    return status;
  }
};

class Scenario {
 public:
  Scenario(CrashModel model, Fault fault)
      : model_(model), fault_(fault), memory_(kBytes), image_(kBytes) {
    memory_.FillWithGarbage(1);
  }

  GenerationsOutcome Run() {
    Must(Pool::CreateArena(OptionsOf(memory_, nullptr), Identity()))->MarkEngineCreated();
    CrashTracer tracer(memory_.span(), fault_);
    Opened opened(Must(Pool::OpenArena(OptionsOf(memory_, &tracer))));
    tracer.before_fence = [&] {
      TryImages(tracer);
      Kill(tracer);
    };
    for (unsigned i = 0; i < kSteps && !seen_.problem; ++i) {
      Step(opened);
      before_ = after_;
      TryImages(tracer);
      CheckLiving(opened);
    }
    tracer.before_fence = nullptr;
    seen_.crash_points = tracer.crash_points();
    return std::move(seen_);
  }

 private:
  static std::unique_ptr<Pool> Must(absl::StatusOr<std::unique_ptr<Pool>> pool) {
    if (!pool.ok()) throw std::runtime_error(pool.status().ToString());
    return *std::move(pool);
  }
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

  // --- steps ---

  void Step(Opened& opened) {
    switch (random_.Below(4)) {
      case 0: AddRecord(opened); break;
      case 1: DropRecord(opened); break;
      default: NextGeneration(opened); break;
    }
  }

  void NextGeneration(Opened& opened) {
    const Promised next = {++numbers_, random_.Below(random_.OneIn(2) ? kLargestSmall : kLargest)};
    TwoGenerations::Staged staged;
    if (!opened.generations->Stage(next.bytes, pmem::ReservePolicy::kKeep, &staged)) return;
    const std::vector<char> content = next.Content();
    for (uint64_t at = 0; at < content.size();) {
      const uint64_t bytes = std::min<uint64_t>(content.size() - at, 1 + random_.Below(2000));
      opened.generations->Write(staged, at, content.data() + at, bytes);
      at += bytes;
    }
    if (random_.OneIn(6)) return opened.generations->Drop(staged);
    after_ = next;
    if (!opened.generations->Commit(staged)) Note("a commit has failed");
  }

  // Of others: space that comes free is written to at once.
  void AddRecord(Opened& opened) {
    if (records_.size() == kMostRecords) return DropRecord(opened);
    const uint64_t bytes = 16 + random_.Below(kLargest);
    const Offset record = opened.slab->Allocate(bytes, pmem::ReservePolicy::kKeep);
    if (record == 0) return;
    records_.push_back(record);
    const std::vector<char> garbage(bytes, static_cast<char>(random_.Next()));
    char* at = opened.pool->At<char>(record);
    opened.pool->medium().StoreBulk(at, garbage.data(), bytes);
    opened.pool->medium().Persist(at, bytes);
    opened.slab->Commit(record);
  }
  void DropRecord(Opened& opened) {
    if (records_.empty()) return;
    std::swap(records_[random_.Below(records_.size())], records_.back());
    opened.slab->Free(records_.back());
    records_.pop_back();
  }

  void CheckLiving(const Opened& opened) {
    if (!after_.Is(CurrentOf(opened))) return Note("readers find another generation");
    uint64_t expected = opened.generations->space_bytes();
    for (const Offset record : records_) expected += opened.slab->SpaceAt(record);
    const uint64_t used = opened.slab->used_bytes();
    if (used != expected) Note(absl::StrCat(used, " bytes are taken instead of ", expected));
  }

  static TwoGenerations::Content CurrentOf(const Opened& opened) {
    const EpochGuard guard;
    return opened.generations->Current();
  }

  // --- images ---

  void TryImages(const CrashTracer& tracer) {
    if (seen_.problem) return;
    const ImageSet images(tracer, model_);
    images.Visit(kExhaustiveUpTo, kSamples, random_, [&](const ImageSet::Picks& picks) {
      ++seen_.images;
      std::memcpy(image_.span().data(), tracer.durable().data(), kBytes);
      images.Apply(picks, image_.span().data());
      CheckImage();
      return !seen_.problem.has_value();
    });
  }

  // Recovery finds one of both, and lives on.
  void CheckImage() {
    auto pool = Pool::OpenArena(OptionsOf(image_, nullptr));
    if (!pool.ok()) return Note(pool.status().ToString());
    Opened opened(*std::move(pool));
    CheckRecovered(opened);
    if (seen_.problem || !random_.OneIn(16)) return;
    const Promised next = {UINT32_MAX, kLargest / 2};
    TwoGenerations::Staged staged;
    if (!opened.generations->Stage(next.bytes, pmem::ReservePolicy::kKeep, &staged)) {
      return Note("there is no room for another generation");
    }
    opened.generations->Write(staged, 0, next.Content().data(), next.bytes);
    if (!opened.generations->Commit(staged) || !next.Is(CurrentOf(opened))) {
      Note("the next generation is not found");
    }
  }

  void CheckRecovered(Opened& opened) {
    const absl::Status status = opened.Recover();
    if (!status.ok()) return Note(status.ToString());
    const TwoGenerations::Content found = CurrentOf(opened);
    if (!before_.Is(found) && !after_.Is(found)) {
      return Note(absl::StrCat("of generation ", before_.number, " or ", after_.number, " ",
                               found.bytes, " bytes are found, or others"));
    }
    const uint64_t used = opened.slab->used_bytes();
    if (used == opened.generations->space_bytes()) return;
    Note(absl::StrCat(used, " bytes are taken, ", opened.generations->space_bytes(),
                      " by the generation in use"));
  }

  // Before a fence the process is killed, and another takes up what it sees. What that has told
  // stays, wherever the power is cut from here on.
  void Kill(const CrashTracer& killed) {
    if (seen_.problem) return;
    ++seen_.kills;
    ArenaMemory seen_by_next = memory_.Copy();
    CrashTracer tracer(seen_by_next.span(), fault_, &killed);
    tracer.before_fence = [&] { TryImages(tracer); };
    auto pool = Pool::OpenArena(OptionsOf(seen_by_next, &tracer));
    if (!pool.ok()) return Note(pool.status().ToString());
    Opened opened(*std::move(pool));
    CheckRecovered(opened);
    const std::pair told = {before_, after_};
    before_ = after_ = after_.Is(CurrentOf(opened)) ? after_ : before_;
    TryImages(tracer);
    std::tie(before_, after_) = told;
    tracer.before_fence = nullptr;
  }

  void Note(std::string_view problem) {
    if (!seen_.problem) seen_.problem = std::string(problem);
  }

  const CrashModel model_;
  const Fault fault_;
  ArenaMemory memory_;
  ArenaMemory image_;
  Random random_{"generations"};
  // Before the call and behind it.
  Promised before_;
  Promised after_;
  uint64_t numbers_ = 0;
  std::vector<Offset> records_;
  GenerationsOutcome seen_;
};

}  // namespace

GenerationsOutcome RunGenerationsScenario(CrashModel model, Fault fault) {
  return Scenario(model, fault).Run();
}

}  // namespace lodgekv::test
