#include "tests/crash/schedule/scheduled_run.h"

#include <xxhash.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/crash/lab/image_tracer.h"
#include "tests/crash/schedule/strategies.h"

namespace lodgekv::test {
namespace {

// Per program; each takes some hundred bytes.
constexpr size_t kMostImagesKnown = 100'000;
// How often threads are switched after a crash.
constexpr unsigned kChangesAfterCrash = 2;
constexpr uint64_t kStepsAfterCrash = 100;

void CopyInto(std::span<const std::byte> from, const ArenaMemory& to) {
  std::memcpy(to.span().data(), from.data(), from.size());
}

}  // namespace

void ScheduleResult::Add(const ScheduleResult& other) {
  programs += other.programs;
  schedules += other.schedules;
  exhausted += other.exhausted;
  steps += other.steps;
  switches += other.switches;
  positions += other.positions;
  images += other.images;
  nested += other.nested;
  recoveries += other.recoveries;
  continued += other.continued;
  pool_full += other.pool_full;
  for (size_t i = 0; i < points.size(); ++i) points[i] += other.points[i];
  crash_points.insert(other.crash_points.begin(), other.crash_points.end());
  fault_happened |= other.fault_happened;
  if (failure) return;
  failure = other.failure;
  crashes = other.crashes;
}

pmem::Pool::ArenaOptions ArenaOf(const ScheduledRun::Shared& shared, const ArenaMemory& memory,
                                 pmem::Tracer* tracer) {
  pmem::Pool::ArenaOptions arena;
  arena.memory = memory.span();
  arena.chunk_bytes = shared.options.chunk_bytes;
  arena.strict_order = shared.options.model == CrashModel::kTornWords;
  arena.tracer = tracer;
  return arena;
}

OpenPool OpenScheduled(const ScheduledRun::Shared& shared, const ArenaMemory& memory,
                       pmem::Tracer* tracer, std::string* problem) {
  const ScheduleOptions& options = shared.options;
  OpenPool open;
  auto pool = pmem::Pool::OpenArena(ArenaOf(shared, memory, tracer));
  if (!pool.ok()) {
    *problem = absl::StrCat("it cannot be opened: ", pool.status().ToString());
    return open;
  }
  open.pool = *std::move(pool);
  EngineContext context;
  context.pool = open.pool.get();
  context.key_format = options.engine_case.key_format;
  context.inline_pairs = options.engine_case.inline_pairs;
  context.options = shared.engine_options;
  const EngineInfo& info = *options.engine_case.engine;
  const bool created = open.pool->engine_created();
  RecoveryReport report;
  auto engine = created ? info.recover(context, &report) : info.create(context);
  if (!engine.ok()) {
    *problem = absl::StrCat("it cannot be opened: ", engine.status().ToString());
    return open;
  }
  if (!created) open.pool->MarkEngineCreated();
  open.engine = *std::move(engine);
  return open;
}

ScheduledRun::ScheduledRun(Shared& shared, Scheduler* scheduler, ScheduledRun* next)
    : shared_(shared),
      scheduler_(scheduler),
      next_(next),
      memory_(shared.options.memory_bytes),
      image_(shared.options.memory_bytes),
      random_("life") {}

// --- a run ---

void ScheduledRun::Begin(std::span<const std::byte> image, ConcurrentHistory& history,
                         uint64_t stream) {
  CopyInto(image, memory_);
  history_ = &history;
  stream_ = stream;
  positions_ = 0;
  random_ = Random("images", stream);
  drawing_ = false;
  Open();
}

void ScheduledRun::Open() {
  shared_.current_run = this;
  position_ = "in recovery";
  calls_ = nullptr;
  tracer_ = std::make_unique<ScheduledTracer>(memory_.span(), shared_.options.fault,
                                              shared_.hosts_threads ? scheduler_ : nullptr);
  tracer_->before_fence = [this] {
    DrawImages(calls_ == nullptr ? "in recovery" : "before a fence");
  };
  std::string problem;
  open_.emplace(OpenScheduled(shared_, memory_, tracer_.get(), &problem));
  if (!problem.empty()) Fail(problem);
}

void ScheduledRun::StartDrawing(std::function<bool()> skips) {
  skips_ = std::move(skips);
  drawing_ = true;
}

void ScheduledRun::Make(const ThreadCalls& calls, Strategy& strategy, uint32_t kinds) {
  if (shared_.failed()) return;
  calls_ = &calls;
  if (scheduler_ == nullptr) {
    for (unsigned i = 0; i < calls.size(); ++i) RunThread(i, calls[i]);
    return;
  }
  std::vector<std::function<void()>> bodies;
  for (unsigned i = 0; i < calls.size(); ++i) {
    bodies.push_back([this, i, &calls] { RunThread(i, calls[i]); });
  }
  scheduler_->Execute(bodies, strategy, kinds);
}

void ScheduledRun::RunThread(unsigned thread, const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    if (shared_.failed()) return;
    const auto problem = history_->Make(*open_->engine, thread, call, [&] { tracer_->Returned(); });
    if (problem) {
      position_ = "in the answer of a call";
      return Fail(*problem);
    }
    DrawImages("after a call");
    Scheduler::Point(PointKind::kCall);
  }
}

void ScheduledRun::End() {
  if (!shared_.failed()) {
    position_ = "in the running engine at the end";
    const Observation running = history_->Observe(*open_->engine);
    if (const auto wrong = history_->Check(running)) Fail(*wrong);
    history_->Note(running);
    DrawImages("at the end");
  }
  drawing_ = false;
  skips_ = {};
  open_.reset();
  shared_.result.fault_happened |= tracer_->fault_happened();
  const auto& points = tracer_->inner().crash_points();
  shared_.result.crash_points.insert(points.begin(), points.end());
}

// --- images ---

void ScheduledRun::DrawImages(const char* position) {
  if (!drawing_ || shared_.failed()) return;
  ++positions_;
  if (skips_) {
    if (skips_()) return;
    // What is drawn here must not depend on whether it was drawn before.
    random_ = Random("images", MixBits(stream_) + positions_);
  }
  const Scheduler::Aside aside;
  position_ = position;
  ++shared_.result.positions;
  const unsigned most = shared_.options.images;
  CopyInto(tracer_->inner().durable(), image_);
  const ImageSet images(tracer_->inner(), shared_.options.model);
  if (images.count() <= most) {
    images.Visit(most, 0, random_, [&](const auto& picks) {
      Try(images, picks);
      return !shared_.failed();
    });
    return;
  }
  for (unsigned i = 0; i < most && !shared_.failed(); ++i) Try(images, images.Draw(random_));
}

void ScheduledRun::Try(const ImageSet& images, const ImageSet::Picks& picks) {
  ++(crashes_ == 0 ? shared_.result.images : shared_.result.nested);
  if (crashes_ == 0 && shared_.seen.size() > kMostImagesKnown) shared_.seen.clear();
  images.Apply(picks, image_.span().data());
  const XXH128_hash_t bits = XXH3_128bits(image_.span().data(), image_.span().size());
  const Hash hash{bits.low64, bits.high64};
  const auto [known, fresh] = shared_.seen.try_emplace(hash);
  Observation& found = known->second;  // the reference stays valid when others are added
  if (fresh) found = Recover();
  images.Undo(tracer_->inner().durable(), image_.span().data());
  if (const auto wrong = history_->Check(found)) return Fail(*wrong, {&images, &picks});
  const unsigned one_in = shared_.options.continue_one_in;
  const bool continues = fresh && next_ != nullptr && one_in != 0 && hash.high % one_in == 0;
  if (!continues) return;
  next_->Follow(*this, {&images, &picks}, found, hash);
  shared_.current_run = this;
}

Observation ScheduledRun::Recover() {
  ++shared_.result.recoveries;
  shared_.moves();
  Observation observation;
  ImageTracer tracer(image_, shared_.options.fault);
  {
    const OpenPool open = OpenScheduled(shared_, image_, &tracer, &observation.problem);
    if (observation.problem.empty()) observation = history_->Observe(*open.engine);
  }
  tracer.Undo(tracer_->inner().durable());
  shared_.result.fault_happened |= tracer.happened;
  shared_.result.crash_points.merge(tracer.points);
  return observation;
}

// What recovery has found in an image it must find in every image of its own interruption, until
// other calls are made.
void ScheduledRun::Follow(const ScheduledRun& parent, const Crash& crash, const Observation& found,
                          const Hash& image) {
  ++shared_.result.continued;
  parent_ = &parent;
  crash_ = crash;
  crashes_ = parent.crashes_ + 1;
  random_ = Random("life", image.low);
  own_history_.emplace(*parent.history_);
  history_ = &*own_history_;
  history_->Adopt(found);
  CopyInto(parent.tracer_->inner().durable(), memory_);
  crash.images->Apply(*crash.picks, memory_.span().data());
  drawing_ = true;
  Open();
  DrawImages("at the end of recovery");
  const std::vector<ThreadCalls>& after = shared_.program.after;
  const bool alone = scheduler_ == nullptr;
  RandomPriorities strategy(Random("life's priorities", image.low), kChangesAfterCrash,
                            kStepsAfterCrash);
  Make(alone ? after.back() : after[random_.Below(after.size() - 1)], strategy);
  End();
}

// --- a failure ---

void ScheduledRun::Fail(const std::string& what, const Crash& image) {
  if (shared_.failed()) return;
  shared_.result.crashes = crashes_;
  shared_.result.failure = absl::StrCat(
      what,
      image.images == nullptr
          ? ""
          : absl::StrCat("\n  of what was not durable survives (stores kept of stores made):",
                         image.images->Describe(*image.picks)),
      "\n  ", Locate(), "\n  ", shared_.where());
}

std::string ScheduledRun::Locate() const {
  std::string text = position_;
  if (scheduler_ != nullptr && calls_ != nullptr) {
    const Scheduler::Run& run = scheduler_->run();
    absl::StrAppend(&text, " on thread ", run.switches.empty() ? 0 : run.switches.back().to,
                    "\n  schedule: ", run.ToString());
  }
  if (parent_ == nullptr) return text;
  if (calls_ != nullptr) absl::StrAppend(&text, "\n  of these calls:", DescribeCalls(*calls_));
  return absl::StrCat(text,
                      "\n  behind a crash that keeps:", crash_.images->Describe(*crash_.picks),
                      "\n  ", parent_->Locate());
}

}  // namespace lodgekv::test
