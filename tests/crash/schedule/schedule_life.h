// One life of a pool under the scheduler: from an image through the engine's recovery and calls of
// several threads to the next crash, with images drawn at each fence and behind each call.
//
// The first life of a schedule begins with the program's tree. Of the images that are drawn in a
// life each is opened by the engine's real recovery and checked; some are lived on: there recovery
// is traced and cut in turn, and other calls follow on what it has made.
//
// Invariants
//  1. What recovery makes of an image depends on its bytes only: an image that was met before in
//     the same program is not opened again, but checked again.
//  2. Whether an image is lived on, and how, depends on its bytes only: a schedule by itself draws
//     the images that it draws among others.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/crash/explorer/open_pool.h"
#include "tests/crash/lab/image_set.h"
#include "tests/crash/schedule/concurrent_history.h"
#include "tests/crash/schedule/program.h"
#include "tests/crash/schedule/scheduled_tracer.h"
#include "tests/crash/schedule/scheduler.h"
#include "tests/support/arena_memory.h"

namespace lodgekv::test {

struct ScheduleOptions {
  EngineCase engine_case;
  CrashModel model = CrashModel::kLinePrefix;
  Fault fault = {};
  uint64_t memory_bytes = uint64_t{64} << 10;
  uint64_t chunk_bytes = 4096;
  unsigned images = 4;           // of a position
  unsigned live_on_one_in = 64;  // of the different images; 0: none is
  bool shrinks = false;          // a program that fails is made smaller, as long as it still fails
};

struct ScheduleResult {
  uint64_t programs = 0;
  uint64_t schedules = 0;
  uint64_t exhausted = 0;  // programs of which every schedule was run
  uint64_t steps = 0;
  uint64_t switches = 0;
  uint64_t positions = 0;
  uint64_t images = 0;      // of first lives
  uint64_t nested = 0;      // of the lives that follow on those
  uint64_t recoveries = 0;  // images that had not been met before
  uint64_t lives = 0;       // images that were lived on
  uint64_t pool_full = 0;
  std::array<uint64_t, static_cast<size_t>(PointKind::kCount)> points{};
  std::set<std::string, std::less<>> crash_points;
  bool fault_happened = false;
  std::optional<std::string> failure;
  unsigned crashes = 0;  // before the failure

  void Add(const ScheduleResult& other);
};

class ScheduledLife {
 public:
  struct Hash {
    uint64_t low;
    uint64_t high;
    bool operator==(const Hash&) const = default;
  };
  struct HashOfHash {
    size_t operator()(const Hash& hash) const { return hash.low; }
  };
  // What all lives of a program share.
  struct Shared {
    ScheduleOptions options;
    OptionValues engine_options;
    Program program;
    ScheduleResult result;
    std::unordered_map<Hash, Observation, HashOfHash> seen;
    std::atomic<const ScheduledLife*> living{nullptr};
    std::function<void()> moves;         // for the watchdog
    std::function<std::string()> where;  // which program and schedule, for a person

    bool failed() const { return result.failure.has_value(); }
  };

  // Calls of several threads are made by `scheduler`; without one they are made one after the
  // other. An image of it that is lived on begins `next`; without one none is.
  ScheduledLife(Shared& shared, Scheduler* scheduler, ScheduledLife* next);

  // The first life: the recovery of `image` is not looked at. The history outlives it. `stream`:
  // which images are drawn.
  void Begin(std::span<const std::byte> image, ConcurrentHistory& history, uint64_t stream);
  // Calls[i] on thread i.
  void Make(const ThreadCalls& calls, Strategy& strategy, uint32_t kinds = kAllPoints);
  // From here on images are drawn, but where `skips` says that they were drawn before.
  void LookFromHereOn(std::function<bool()> skips = {});
  // Compares what the living engine holds, and closes it.
  void End();

  // Where it is, for a person.
  std::string Locate() const;

 private:
  struct Crash {
    const ImageSet* images;
    const ImageSet::Picks* picks;
  };

  void Open();
  void RunThread(unsigned thread, const std::vector<Call>& calls);
  void Look(const char* position);
  void Try(const ImageSet& images, const ImageSet::Picks& picks);
  Observation Recover();
  void Follow(const ScheduledLife& parent, const Crash& crash, const Observation& found,
              const Hash& image);
  void Close();
  void Fail(const std::string& what, const Crash& image = {});

  Shared& shared_;
  Scheduler* const scheduler_;
  ScheduledLife* const next_;
  ArenaMemory memory_;
  ArenaMemory image_;
  std::unique_ptr<ScheduledTracer> tracer_;
  std::optional<OpenPool> open_;
  std::optional<ConcurrentHistory> own_history_;
  ConcurrentHistory* history_ = nullptr;
  Random random_;
  uint64_t stream_ = 0;
  uint64_t looks_ = 0;
  std::function<bool()> skips_;
  bool looking_ = false;
  const char* position_ = "";
  const ThreadCalls* calls_ = nullptr;
  unsigned crashes_ = 0;
  const ScheduledLife* parent_ = nullptr;
  Crash crash_ = {};  // that it follows on
};

pmem::Pool::ArenaOptions ArenaOf(const ScheduledLife::Shared& shared, const ArenaMemory& memory,
                                 pmem::Tracer* tracer);
// Opens what a crash has left, or creates the engine where there is none. `problem`: why not.
OpenPool OpenScheduled(const ScheduledLife::Shared& shared, const ArenaMemory& memory,
                       pmem::Tracer* tracer, std::string* problem);

}  // namespace lodgekv::test
