#include "tests/crash/life.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/crash/hands.h"
#include "tests/crash/high_numbers.h"
#include "tests/crash/looking_tracer.h"

namespace lodgekv::test {
namespace {

// Is what was drawn made good again? Asked once in so many positions: it takes long, and whoever
// writes past the seam does so again.
constexpr uint64_t kPositionsPerLook = 8;

void CopyInto(std::span<const std::byte> from, const ArenaMemory& to) {
  std::memcpy(to.span().data(), from.data(), from.size());
}

}  // namespace

pmem::PoolIdentity IdentityOf(const EngineCase& engine_case, uint64_t run) {
  pmem::PoolIdentity identity;
  identity.engine = std::string(engine_case.engine->name);
  identity.media_version = engine_case.engine->media_version;
  identity.key_format = engine_case.key_format;
  identity.inline_pairs = engine_case.inline_pairs;
  for (size_t i = 0; i < identity.pool_id.size(); ++i) {
    identity.pool_id[i] = static_cast<uint8_t>(MixBits(TestSeed() + run * 16 + i));
  }
  return identity;
}

Explorer::Life::Life(Explorer& explorer, unsigned depth, unsigned crashes, Oracle oracle,
                     ArenaMemory memory)
    : explorer_(explorer),
      options_(explorer.options_),
      depth_(depth),
      crashes_(crashes),
      memory_(std::move(memory)),
      oracle_(std::move(oracle)),
      image_(options_.memory_bytes) {}

Explorer::Life::~Life() {
  if (tracer_ == nullptr) return;
  exploring_ = false;
  explorer_.living_ = nullptr;
  explorer_.result_.crash_points.insert(tracer_->crash_points().begin(),
                                        tracer_->crash_points().end());
  explorer_.result_.fault_happened |= tracer_->fault_happened();
}

pmem::Pool::ArenaOptions Explorer::Life::ArenaOf(const ArenaMemory& memory,
                                                 pmem::Tracer* tracer) const {
  pmem::Pool::ArenaOptions arena;
  arena.memory = memory.span();
  arena.chunk_bytes = options_.chunk_bytes;
  arena.strict_order = options_.model == CrashModel::kTornWords;
  arena.tracer = tracer;
  return arena;
}

EngineContext Explorer::Life::ContextOf(pmem::Pool* pool) const {
  EngineContext context;
  context.pool = pool;
  context.key_format = options_.engine_case.key_format;
  context.inline_pairs = options_.engine_case.inline_pairs;
  context.options = explorer_.engine_options_;
  return context;
}

absl::Status Explorer::Life::Open(const ArenaMemory& memory, pmem::Tracer* tracer,
                                  OpenPool* open) const {
  auto pool = pmem::Pool::OpenArena(ArenaOf(memory, tracer));
  if (!pool.ok()) return pool.status();
  open->pool = *std::move(pool);
  const EngineContext context = ContextOf(open->pool.get());
  const EngineInfo& info = *options_.engine_case.engine;
  const bool created = open->pool->engine_created();
  if (!created) open->pool->ResetForEngine();
  RecoveryReport report;
  auto engine = created ? info.recover(context, &report) : info.create(context);
  if (!engine.ok()) return engine.status();
  if (!created) open->pool->MarkEngineCreated();
  open->engine = *std::move(engine);
  return absl::OkStatus();
}

// The pool's own creation is explored where the pool is tested; here it is done before the first
// image.
void Explorer::Life::Create() {
  doing_ = "the engine's creation";
  memory_.FillWithGarbage(TestSeed() + options_.run);
  const auto pool = pmem::Pool::CreateArena(ArenaOf(memory_, nullptr),
                                            IdentityOf(options_.engine_case, options_.run));
  if (!pool.ok()) return Fail(pool.status().ToString(), "");
  if (options_.first_sequence > 1) SetNextSequence(memory_, options_.first_sequence);
  Recover();
}

void Explorer::Life::Recover() {
  Moves();
  if (doing_.empty()) doing_ = "recovery";
  tracer_ = std::make_unique<CrashTracer>(memory_.span(), options_.fault);
  tracer_->before_fence = [this] { Explore("before a fence"); };
  const absl::Status status = Open(memory_, tracer_.get(), &open_);
  if (explorer_.Ended()) return;
  if (!status.ok()) return Fail(status.ToString(), "");
  Explore("at its end");
}

void Explorer::Life::WarmUp(unsigned puts) {
  exploring_ = false;
  for (unsigned i = 0; i < puts && !explorer_.Ended(); ++i) {
    TakeStep(explorer_.workload_.PutNumber(i));
  }
  exploring_ = true;
}

void Explorer::Life::Steps(unsigned count) {
  const auto version_of = [this](std::string_view key) { return oracle_.VersionOf(key); };
  for (unsigned i = 0; i < count && !explorer_.Ended(); ++i) {
    const Step step = explorer_.workload_.Next(explorer_.random_, version_of);
    TakeStep(step);
    if (!explorer_.Ended()) Explore("at its end");
  }
  if (explorer_.Ended() || open_.engine == nullptr) return;
  doing_ = "the look at the living engine";
  if (const auto problem = oracle_.Compare(*open_.engine, explorer_.workload_.keys())) {
    Fail(*problem, "");
  }
}

void Explorer::Life::TakeStep(const Step& step) {
  Moves();
  doing_ = absl::StrCat("operation ", ++step_, " (", step.Describe(), ")");
  ++explorer_.result_.steps;
  oracle_.Begin(step);
  const std::vector<WriteOp> ops = step.Ops();
  std::vector<WriteResult> results(ops.size());
  explorer_.hands_->Do(explorer_.random_.Below(options_.threads),
                       [&] { (void)open_.engine->Write(ops, results, step.Options()); });
  if (explorer_.Ended()) return;
  if (const auto problem = oracle_.Finish(step, results)) Fail(*problem, "");
}

// --- images ---

void Explorer::Life::Explore(const char* position) {
  if (!exploring_ || explorer_.Ended()) return;
  position_ = position;
  ++explorer_.result_.positions;
  CopyInto(tracer_->durable(), image_);
  const ImageSet images(*tracer_, options_.model);
  // Later lives are many: each is looked at less closely.
  const uint64_t limit = options_.exhaustive_up_to >> (2 * std::min(depth_, 1U));
  const bool all = images.Visit(limit, options_.samples >> depth_, explorer_.random_,
                                [&](const auto& picks) { return TryImage(images, picks); });
  if (all) ++explorer_.result_.exhaustive_positions;
  if (explorer_.Ended() || explorer_.result_.positions % kPositionsPerLook != 0) return;
  const std::span<const std::byte> durable = tracer_->durable();
  if (std::memcmp(image_.span().data(), durable.data(), durable.size()) != 0) {
    Fail("recovery has changed the medium past the seam: index/pmem/persist.h has not seen it", "");
  }
}

void Explorer::Life::Moves() {
  explorer_.living_ = this;
  explorer_.watchdog_->Progress();
}

bool Explorer::Life::TryImage(const ImageSet& images, const ImageSet::Picks& picks) {
  Moves();
  ++explorer_.result_.images;
  if (crashes_ > 0) ++explorer_.result_.nested_images;
  images.Apply(picks, image_.span().data());
  LookingTracer tracer(image_, options_.fault);
  Oracle::Problem problem;
  {
    OpenPool open;
    const absl::Status status = Open(image_, &tracer, &open);
    if (status.ok()) {
      problem = oracle_.Compare(*open.engine, explorer_.workload_.keys());
    } else {
      problem = absl::StrCat("it cannot be opened: ", status.ToString());
    }
  }
  explorer_.result_.fault_happened |= tracer.happened;
  explorer_.result_.crash_points.merge(tracer.points);
  tracer.Undo(tracer_->durable());
  images.Undo(tracer_->durable(), image_.span().data());
  if (problem) {
    Fail(*problem, images.Describe(picks));
    return false;
  }
  if (depth_ < options_.max_depth &&
      explorer_.random_.OneIn(options_.live_on_one_in << (2 * depth_))) {
    LiveOn(images, picks);
  }
  if (depth_ == 0 && options_.crashes > 0 && explorer_.random_.OneIn(++heirs_seen_)) {
    heir_ = MakeHeir(images, picks, 0);
  }
  return !explorer_.Ended();
}

// Recovery has decided what became of the step in flight; however often it is cut, it must not
// decide otherwise.
std::unique_ptr<Explorer::Life> Explorer::Life::MakeHeir(const ImageSet& images,
                                                         const ImageSet::Picks& picks,
                                                         unsigned depth) const {
  ArenaMemory memory(options_.memory_bytes);
  CopyInto(tracer_->durable(), memory);
  images.Apply(picks, memory.span().data());
  Oracle oracle = oracle_;
  oracle.Adopt();
  return std::make_unique<Life>(explorer_, depth, crashes_ + 1, std::move(oracle),
                                std::move(memory));
}

void Explorer::Life::LiveOn(const ImageSet& images, const ImageSet::Picks& picks) {
  ++explorer_.result_.lives;
  const std::unique_ptr<Life> life = MakeHeir(images, picks, depth_ + 1);
  life->Recover();
  life->Steps(options_.lives_steps);
}

std::unique_ptr<Explorer::Life> Explorer::Life::TakeHeir() {
  ++explorer_.result_.lives;
  return std::move(heir_);
}

void Explorer::Life::Fail(const std::string& what, const std::string& image) {
  if (explorer_.result_.failure.has_value()) return;
  explorer_.result_.failure = absl::StrCat(
      what, "\n  ",
      image.empty() ? "" : "of what was not durable survives (stores kept of stores made):", image,
      image.empty() ? "" : "\n  ", Locate());
}

std::string Explorer::Life::Locate() const {
  const std::string point(tracer_ == nullptr ? "" : tracer_->last_point());
  return absl::StrCat("after ", crashes_, " crashes, ", position_, " in ", doing_, "\n  fence ",
                      tracer_ == nullptr ? 0 : tracer_->fences(), ", last crash point ",
                      point.empty() ? "none" : point, "\n  ", explorer_.Where());
}

}  // namespace lodgekv::test
