#include "tests/crash/explorer/replay.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/crash/explorer/open_pool.h"
#include "tests/crash/lab/image_set.h"
#include "tests/crash/lab/image_tracer.h"
#include "tests/crash/lab/regions.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kExhaustiveUpTo = 64;
constexpr unsigned kSamples = 16;

}  // namespace

// One run of the script, up to its crash or to the failure.
class Replay::EngineRun {
 public:
  EngineRun(Replay& replay, const ScriptRun& script, bool last, Way way, uint64_t variant,
            Oracle oracle, ArenaMemory memory)
      : replay_(replay),
        options_(replay.options_),
        script_(script),
        last_(last),
        way_(way),
        variant_(variant),
        memory_(std::move(memory)),
        oracle_(std::move(oracle)),
        next_memory_(options_.memory_bytes),
        image_(options_.memory_bytes),
        next_oracle_(oracle_),
        random_("replay", variant) {
    done_.worker = script.worker;
  }

  // The returned failure's script holds this run only.
  std::optional<Failure> Run() {
    tracer_ = std::make_unique<CrashTracer>(memory_.span(), options_.fault);
    tracer_->before_fence = [this] {
      if (at_last_step_) At(tracer_->fences() - fences_before_);
    };
    at_last_step_ = script_.steps.empty();
    replay_.workers_.Do(script_.worker, [this] { Open(); });
    if (failure_) return std::move(failure_);
    if (at_last_step_) At(0);
    for (size_t i = 0; i < script_.steps.size() && !failure_; ++i) {
      at_last_step_ = i + 1 == script_.steps.size();
      TakeStep(script_.steps[i]);
      if (at_last_step_) {
        At(0);
      } else if (last_ && way_ == Way::kAround && !failure_) {
        TryAllImages();
      }
    }
    tracer_->before_fence = nullptr;
    if (last_ && !failure_ && (way_ == Way::kAround || !script_.crash.happens))
      CheckRunningEngine();
    return std::move(failure_);
  }

  // Valid after Run, for a run that is not the last.
  ScriptRun done() const { return done_; }
  Oracle next_oracle() const { return next_oracle_; }
  ArenaMemory TakeNextMemory() { return std::move(next_memory_); }

 private:
  void Fail(const std::string& what, std::string lines = "") {
    if (!failure_) failure_ = Failure{what, std::move(lines), {done_}};
  }

  void Open() {
    const absl::Status status =
        OpenImage(options_, replay_.engine_options_, memory_, tracer_.get(), &open_);
    if (!status.ok()) Fail(status.ToString());
  }

  void TakeStep(const TakenStep& taken) {
    fences_before_ = tracer_->fences();
    done_.steps.push_back(taken);
    oracle_.Begin(taken.step);
    const std::vector<WriteOp> ops = taken.step.Ops();
    std::vector<WriteResult> results(ops.size());
    replay_.workers_.Do(taken.worker,
                        [&] { (void)open_.engine->Write(ops, results, taken.step.Options()); });
    if (failure_) return;
    if (const auto problem = oracle_.Finish(taken.step, results)) Fail(*problem);
  }

  void CheckRunningEngine() {
    Oracle oracle = oracle_;  // images are compared with oracle_ meanwhile, at each first touch
    const auto problem = oracle.Compare(*open_.engine, replay_.workload_.keys());
    if (problem) Fail(absl::StrCat("the running engine: ", *problem));
  }

  // The last step is at its fence `number`, or done (0).
  void At(uint64_t number) {
    if (failure_) return;
    const bool here = script_.crash.happens && script_.crash.fence == number;
    const ImageSet images(*tracer_, options_.model);
    if (!last_) {
      // The step may have fewer fences than in the script.
      if (!captured_ && (here || number == 0)) EndHere(number, images);
    } else if (way_ == Way::kAround) {
      images.Visit(kExhaustiveUpTo, kSamples, random_, [&](const ImageSet::Picks& picks) {
        TryImage(number, images, picks, oracle_);
        return !failure_.has_value();
      });
    } else if (here) {
      TryImage(number, images, images.FromLines(script_.crash.kept), oracle_);
    }
  }

  // A mistake may show earlier than in the script.
  void TryAllImages() {
    const ImageSet images(*tracer_, options_.model);
    TryImage(0, images, images.FromLines({}), oracle_);
  }

  void EndHere(uint64_t number, const ImageSet& images) {
    const ImageSet::Picks picks =
        variant_ == 0 ? images.FromLines(script_.crash.kept) : images.Draw(random_);
    captured_ = true;
    next_oracle_ = oracle_;
    std::memcpy(next_memory_.span().data(), tracer_->durable().data(), options_.memory_bytes);
    images.Apply(picks, next_memory_.span().data());
    TryImage(number, images, picks, next_oracle_);
    if (failure_) return;
    next_oracle_.Adopt();
    done_.crash = {true, number, images.ByLine(picks)};
  }

  void TryImage(uint64_t number, const ImageSet& images, const ImageSet::Picks& picks,
                Oracle& oracle) {
    ++replay_.images_;
    std::memcpy(image_.span().data(), tracer_->durable().data(), options_.memory_bytes);
    images.Apply(picks, image_.span().data());
    ImageTracer tracer(image_, options_.fault);
    OpenPool open;
    Oracle::Problem problem;
    const absl::Status status =
        OpenImage(options_, replay_.engine_options_, image_, &tracer, &open);
    if (status.ok()) {
      problem = oracle.Compare(*open.engine, replay_.workload_.keys());
    } else {
      problem = absl::StrCat("it cannot be opened: ", status.ToString());
    }
    if (!problem) return;
    done_.crash = {true, number, images.ByLine(picks)};
    const auto place = [this](uint64_t offset) {
      return open_.pool == nullptr ? "the pool" : RegionOf(*open_.pool, offset);
    };
    Fail(*problem, images.Explain(picks, tracer_->durable(), place));
  }

  Replay& replay_;
  const ExplorerOptions& options_;
  const ScriptRun& script_;
  const bool last_;
  const Way way_;
  const uint64_t variant_;
  ArenaMemory memory_;
  Oracle oracle_;
  ArenaMemory next_memory_;
  ArenaMemory image_;
  Oracle next_oracle_;
  Random random_;
  std::unique_ptr<CrashTracer> tracer_;
  OpenPool open_;
  ScriptRun done_;
  bool at_last_step_ = false;
  bool captured_ = false;
  uint64_t fences_before_ = 0;
  std::optional<Failure> failure_;
};

Replay::Replay(const ExplorerOptions& options)
    : options_(options),
      engine_options_(OptionsFor(options.engine_case, options.engine_options)),
      workload_(options.engine_case, options.mixture),
      workers_(options.threads) {}

Replay::~Replay() = default;

std::optional<Replay::Failure> Replay::Run(const Script& script, Way way, uint64_t variant) {
  ArenaMemory memory(options_.memory_bytes);
  if (const absl::Status status = MakePool(options_, memory); !status.ok()) return {};
  Oracle oracle(options_.engine_case);
  Script done;
  for (size_t i = 0; i < script.size(); ++i) {
    EngineRun run(*this, script[i], i + 1 == script.size(), way, variant, oracle,
                  std::move(memory));
    if (std::optional<Failure> failure = run.Run()) {
      failure->script.insert(failure->script.begin(), done.begin(), done.end());
      return failure;
    }
    done.push_back(run.done());
    oracle = run.next_oracle();
    memory = run.TakeNextMemory();
  }
  return {};
}

}  // namespace lodgekv::test
