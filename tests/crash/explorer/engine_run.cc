#include "tests/crash/explorer/engine_run.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/crash/lab/image_tracer.h"

namespace lodgekv::test {
namespace {

// Whether the image was restored is verified once in so many positions: it takes long, and code
// that writes without the Medium does so repeatedly.
constexpr uint64_t kPositionsPerRestoreCheck = 8;

void CopyInto(std::span<const std::byte> from, const ArenaMemory& to) {
  std::memcpy(to.span().data(), from.data(), from.size());
}

}  // namespace

Explorer::EngineRun::EngineRun(Explorer& explorer, unsigned depth, unsigned crashes, Oracle oracle,
                               ArenaMemory memory, std::shared_ptr<const Past> past)
    : explorer_(explorer),
      options_(explorer.options_),
      depth_(depth),
      crashes_(crashes),
      past_(std::move(past)),
      memory_(std::move(memory)),
      oracle_(std::move(oracle)),
      image_(options_.memory_bytes) {}

Explorer::EngineRun::~EngineRun() {
  if (tracer_ == nullptr) return;
  exploring_ = false;
  explorer_.current_run_ = nullptr;
  explorer_.result_.crash_points.insert(tracer_->crash_points().begin(),
                                        tracer_->crash_points().end());
  explorer_.result_.fault_happened |= tracer_->fault_happened();
}

absl::Status Explorer::EngineRun::Open(const ArenaMemory& memory, pmem::Tracer* tracer,
                                       OpenPool* open) const {
  return OpenImage(options_, explorer_.engine_options_, memory, tracer, open);
}

// The pool's own creation is tested in pool_scenario.h; here it happens before the first image.
void Explorer::EngineRun::Create() {
  doing_ = "the engine's creation";
  const absl::Status status = MakePool(options_, memory_);
  if (!status.ok()) return Fail(status.ToString());
  Recover();
}

void Explorer::EngineRun::Recover() {
  Moves();
  if (doing_.empty()) doing_ = "recovery";
  worker_ = explorer_.workers_->current();
  tracer_ = std::make_unique<CrashTracer>(memory_.span(), options_.fault);
  tracer_->before_fence = [this] {
    // Otherwise there is one image, and it was already checked.
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

void Explorer::EngineRun::WarmUp(unsigned puts) {
  exploring_ = false;
  for (unsigned i = 0; i < puts && !explorer_.Ended(); ++i) {
    TakeStep(explorer_.workload_.PutNumber(i));
  }
  exploring_ = true;
}

void Explorer::EngineRun::Steps(unsigned count) {
  const auto version_of = [this](std::string_view key) { return oracle_.VersionOf(key); };
  for (unsigned i = 0; i < count && !explorer_.Ended(); ++i) {
    const Step step = explorer_.workload_.Next(explorer_.random_, version_of);
    TakeStep(step);
    if (!explorer_.Ended()) Explore("at its end");
  }
  if (explorer_.Ended() || open_.engine == nullptr) return;
  doing_ = "the check of the running engine";
  // A first touch makes a fence, before which images are compared with oracle_.
  Oracle oracle = oracle_;
  if (const auto problem = oracle.Compare(*open_.engine, explorer_.workload_.keys())) {
    Fail(*problem);
  }
}

void Explorer::EngineRun::TakeStep(const Step& step) {
  Moves();
  doing_ = absl::StrCat("operation ", ++step_, " (", step.Describe(), ")");
  ++explorer_.result_.steps;
  oracle_.Begin(step);
  const std::vector<WriteOp> ops = step.Ops();
  std::vector<WriteResult> results(ops.size());
  fences_before_step_ = tracer_->fences();
  step_done_ = false;
  explorer_.workers_->Do(explorer_.random_.Below(options_.threads), [&] {
    taken_->push_back({step, explorer_.workers_->current()});
    (void)open_.engine->Write(ops, results, step.Options());
  });
  step_done_ = true;
  if (explorer_.Ended()) return;
  if (const auto problem = oracle_.Finish(step, results)) Fail(*problem);
}

// --- images ---

void Explorer::EngineRun::Explore(const char* position) {
  if (!exploring_ || explorer_.Ended()) return;
  position_ = position;
  stores_explored_ = tracer_->stores();
  ++explorer_.result_.positions;
  CopyInto(tracer_->durable(), image_);
  const ImageSet images(*tracer_, options_.model);
  // There are many nested runs: each is checked less closely.
  const uint64_t limit = options_.exhaustive_up_to >> (2 * std::min(depth_, 1U));
  const bool all = images.Visit(limit, options_.samples >> depth_, explorer_.random_,
                                [&](const auto& picks) { return TryImage(images, picks); });
  if (all) ++explorer_.result_.exhaustive_positions;
  if (explorer_.Ended() || explorer_.result_.positions % kPositionsPerRestoreCheck != 0) return;
  const std::span<const std::byte> durable = tracer_->durable();
  if (std::memcmp(image_.span().data(), durable.data(), durable.size()) != 0) {
    Fail("recovery has changed the medium past the seam: index/pmem/medium.h has not seen it");
  }
}

void Explorer::EngineRun::Moves() {
  explorer_.current_run_ = this;
  explorer_.watchdog_->Progress();
}

bool Explorer::EngineRun::TryImage(const ImageSet& images, const ImageSet::Picks& picks) {
  Moves();
  ++explorer_.result_.images;
  if (crashes_ > 0) ++explorer_.result_.nested_images;
  images.Apply(picks, image_.span().data());
  ImageTracer tracer(image_, options_.fault);
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
      explorer_.random_.OneIn(options_.continue_one_in << (2 * depth_))) {
    Continue(images, picks);
  }
  if (depth_ == 0 && options_.crashes > 0 && explorer_.random_.OneIn(++successors_seen_)) {
    successor_ = MakeSuccessor(images, picks, 0);
  }
  return !explorer_.Ended();
}

// Recovery has decided the outcome of the step in flight. However often it is interrupted, it must
// not decide otherwise.
std::unique_ptr<Explorer::EngineRun> Explorer::EngineRun::MakeSuccessor(
    const ImageSet& images, const ImageSet::Picks& picks, unsigned depth) const {
  ArenaMemory memory(options_.memory_bytes);
  CopyInto(tracer_->durable(), memory);
  images.Apply(picks, memory.span().data());
  Oracle oracle = oracle_;
  oracle.Adopt();
  auto past = std::make_shared<const Past>(
      Past{past_, taken_, taken_->size(), worker_, CrashHere(images, picks)});
  return std::make_unique<EngineRun>(explorer_, depth, crashes_ + 1, std::move(oracle),
                                     std::move(memory), std::move(past));
}

void Explorer::EngineRun::Continue(const ImageSet& images, const ImageSet::Picks& picks) {
  ++explorer_.result_.continued;
  const std::unique_ptr<EngineRun> run = MakeSuccessor(images, picks, depth_ + 1);
  run->Recover();
  run->Steps(options_.steps_of_continued);
}

std::unique_ptr<Explorer::EngineRun> Explorer::EngineRun::TakeSuccessor() {
  ++explorer_.result_.continued;
  return std::move(successor_);
}

CrashAt Explorer::EngineRun::CrashHere(const ImageSet& images, const ImageSet::Picks& picks) const {
  return {true, step_done_ ? 0 : tracer_->fences() - fences_before_step_, images.ByLine(picks)};
}

Script Explorer::EngineRun::ScriptSoFar(const CrashAt& crash) const {
  Script script;
  script.push_back({worker_, *taken_, crash});
  for (const Past* past = past_.get(); past != nullptr; past = past->before.get()) {
    const auto begin = past->steps->begin();
    script.push_back(
        {past->worker, {begin, begin + static_cast<ptrdiff_t>(past->count)}, past->crash});
  }
  std::reverse(script.begin(), script.end());
  return script;
}

void Explorer::EngineRun::Fail(const std::string& what, const std::string& image,
                               const CrashAt& crash) {
  if (explorer_.result_.failure.has_value()) return;
  explorer_.result_.script = ScriptSoFar(crash);
  explorer_.result_.failure = absl::StrCat(
      what, "\n  ",
      image.empty() ? "" : "of what was not durable survives (stores kept of stores made):", image,
      image.empty() ? "" : "\n  ", Locate());
}

std::string Explorer::EngineRun::Locate() const {
  const std::string point(tracer_ == nullptr ? "" : tracer_->last_point());
  return absl::StrCat("after ", crashes_, " crashes, ", position_, " in ", doing_, "\n  fence ",
                      tracer_ == nullptr ? 0 : tracer_->fences(), ", last crash point ",
                      point.empty() ? "none" : point, "\n  ", explorer_.Where());
}

}  // namespace lodgekv::test
