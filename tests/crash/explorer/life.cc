#include "tests/crash/explorer/life.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/crash/lab/looking_tracer.h"

namespace lodgekv::test {
namespace {

// Is what was drawn made good again? Asked once in so many positions: it takes long, and whoever
// writes past the seam does so again.
constexpr uint64_t kPositionsPerLook = 8;

void CopyInto(std::span<const std::byte> from, const ArenaMemory& to) {
  std::memcpy(to.span().data(), from.data(), from.size());
}

}  // namespace

Explorer::Life::Life(Explorer& explorer, unsigned depth, unsigned crashes, Oracle oracle,
                     ArenaMemory memory, std::shared_ptr<const Past> past)
    : explorer_(explorer),
      options_(explorer.options_),
      depth_(depth),
      crashes_(crashes),
      past_(std::move(past)),
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

absl::Status Explorer::Life::Open(const ArenaMemory& memory, pmem::Tracer* tracer,
                                  OpenPool* open) const {
  return OpenImage(options_, explorer_.engine_options_, memory, tracer, open);
}

// The pool's own creation is explored where the pool is tested; here it is done before the first
// image.
void Explorer::Life::Create() {
  doing_ = "the engine's creation";
  const absl::Status status = MakePool(options_, memory_);
  if (!status.ok()) return Fail(status.ToString());
  Recover();
}

void Explorer::Life::Recover() {
  Moves();
  if (doing_.empty()) doing_ = "recovery";
  hand_ = explorer_.hands_->current();
  tracer_ = std::make_unique<CrashTracer>(memory_.span(), options_.fault);
  tracer_->before_fence = [this] {
    // Else there is one image, and it was looked at.
    if (tracer_->stores() != stores_explored_ || !tracer_->dirty_lines().empty()) {
      Explore("before a fence");
    }
  };
  const absl::Status status = Open(memory_, tracer_.get(), &open_);
  if (explorer_.Ended()) return;
  if (!status.ok()) return Fail(status.ToString());
  step_done_ = true;
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
    Fail(*problem);
  }
}

void Explorer::Life::TakeStep(const Step& step) {
  Moves();
  doing_ = absl::StrCat("operation ", ++step_, " (", step.Describe(), ")");
  ++explorer_.result_.steps;
  oracle_.Begin(step);
  const std::vector<WriteOp> ops = step.Ops();
  std::vector<WriteResult> results(ops.size());
  fences_before_step_ = tracer_->fences();
  step_done_ = false;
  explorer_.hands_->Do(explorer_.random_.Below(options_.threads), [&] {
    taken_->push_back({step, explorer_.hands_->current()});
    (void)open_.engine->Write(ops, results, step.Options());
  });
  step_done_ = true;
  if (explorer_.Ended()) return;
  if (const auto problem = oracle_.Finish(step, results)) Fail(*problem);
}

// --- images ---

void Explorer::Life::Explore(const char* position) {
  if (!exploring_ || explorer_.Ended()) return;
  position_ = position;
  stores_explored_ = tracer_->stores();
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
    Fail("recovery has changed the medium past the seam: index/pmem/medium.h has not seen it");
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
    Fail(*problem, images.Describe(picks), CrashHere(images, picks));
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
  auto past = std::make_shared<const Past>(
      Past{past_, taken_, taken_->size(), hand_, CrashHere(images, picks)});
  return std::make_unique<Life>(explorer_, depth, crashes_ + 1, std::move(oracle),
                                std::move(memory), std::move(past));
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

CrashAt Explorer::Life::CrashHere(const ImageSet& images, const ImageSet::Picks& picks) const {
  return {true, step_done_ ? 0 : tracer_->fences() - fences_before_step_, images.ByLine(picks)};
}

Script Explorer::Life::ScriptSoFar(const CrashAt& crash) const {
  Script script;
  script.push_back({hand_, *taken_, crash});
  for (const Past* past = past_.get(); past != nullptr; past = past->before.get()) {
    const auto begin = past->steps->begin();
    script.push_back(
        {past->hand, {begin, begin + static_cast<ptrdiff_t>(past->count)}, past->crash});
  }
  std::reverse(script.begin(), script.end());
  return script;
}

void Explorer::Life::Fail(const std::string& what, const std::string& image, const CrashAt& crash) {
  if (explorer_.result_.failure.has_value()) return;
  explorer_.result_.script = ScriptSoFar(crash);
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
