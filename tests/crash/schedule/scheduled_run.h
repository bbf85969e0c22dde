// One run of a pool under the scheduler: from an image through the engine's recovery and calls of
// several threads to the next crash, with images drawn at each fence and after each call.
//
// The first run of a schedule begins with the program's tree. Each image drawn in a run is opened
// by the engine's real recovery and checked. Some are continued: recovery is traced and interrupted
// in turn, and other calls follow on its result.
//
// Invariants
//  1. What recovery makes of an image depends on its bytes only: an image that was seen before in
//     the same program is not opened again, but checked again.
//  2. Whether and how an image is continued depends on its bytes only: a schedule run alone draws
//     the same images as among others.
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

// Threads that an engine starts.
inline constexpr unsigned kGuests = 1;

struct ScheduleOptions {
  EngineCase engine_case;
  CrashModel model = CrashModel::kLinePrefix;
  Fault fault = {};
  uint64_t memory_bytes = uint64_t{64} << 10;
  uint64_t chunk_bytes = 4096;
  unsigned images = 4;            // at one position
  unsigned continue_one_in = 64;  // of the different images; 0: none
  bool shrinks = false;           // reduces a program that fails as long as it still fails
};

struct ScheduleResult {
  uint64_t programs = 0;
  uint64_t schedules = 0;
  uint64_t exhausted = 0;  // programs whose schedules were all run
  uint64_t steps = 0;
  uint64_t switches = 0;
  uint64_t positions = 0;
  uint64_t images = 0;      // of first runs
  uint64_t nested = 0;      // of the runs that follow them
  uint64_t recoveries = 0;  // images that had not been seen before
  uint64_t continued = 0;   // images whose run was continued
  uint64_t pool_full = 0;
  std::array<uint64_t, static_cast<size_t>(PointKind::kCount)> points{};
  std::set<std::string, std::less<>> crash_points;
  bool fault_happened = false;
  std::optional<std::string> failure;
  unsigned crashes = 0;  // before the failure

  void Add(const ScheduleResult& other);
};

class ScheduledRun {
 public:
  struct Hash {
    uint64_t low;
    uint64_t high;
    bool operator==(const Hash&) const = default;
  };
  struct HashOfHash {
    size_t operator()(const Hash& hash) const { return hash.low; }
  };
  // The state that all runs of a program share.
  struct Shared {
    ScheduleOptions options;
    OptionValues engine_options;
    Program program;
    // The scheduler runs the threads that the engine starts; otherwise their work is done in place.
    bool hosts_threads = false;
    ScheduleResult result;
    std::unordered_map<Hash, Observation, HashOfHash> seen;
    std::atomic<const ScheduledRun*> current_run{nullptr};
    std::function<void()> moves;         // for the watchdog
    std::function<std::string()> where;  // human-readable: which program and schedule

    bool failed() const { return result.failure.has_value(); }
  };

  // `scheduler` makes the calls of several threads; without one they are made one after the other.
  // A continued image begins `next`; without it none is continued.
  ScheduledRun(Shared& shared, Scheduler* scheduler, ScheduledRun* next);

  // For the first run: the recovery of `image` is not checked. The history must outlive it.
  // `stream` selects the images drawn.
  void Begin(std::span<const std::byte> image, ConcurrentHistory& history, uint64_t stream);
  // Calls[i] on thread i.
  void Make(const ThreadCalls& calls, Strategy& strategy, uint32_t kinds = kAllPoints);
  // From here on images are drawn, except where `skips` says that they were drawn before.
  void StartDrawing(std::function<bool()> skips = {});
  // Checks the content of the running engine, and closes it.
  void End();

  // The current place, human-readable.
  std::string Locate() const;

 private:
  struct Crash {
    const ImageSet* images;
    const ImageSet::Picks* picks;
  };

  void Open();
  void RunThread(unsigned thread, const std::vector<Call>& calls);
  void DrawImages(const char* position);
  void Try(const ImageSet& images, const ImageSet::Picks& picks);
  Observation Recover();
  void Follow(const ScheduledRun& parent, const Crash& crash, const Observation& found,
              const Hash& image);
  void Close();
  void Fail(const std::string& what, const Crash& image = {});

  Shared& shared_;
  Scheduler* const scheduler_;
  ScheduledRun* const next_;
  ArenaMemory memory_;
  ArenaMemory image_;
  std::unique_ptr<ScheduledTracer> tracer_;
  std::optional<OpenPool> open_;
  std::optional<ConcurrentHistory> own_history_;
  ConcurrentHistory* history_ = nullptr;
  Random random_;
  uint64_t stream_ = 0;
  uint64_t positions_ = 0;
  std::function<bool()> skips_;
  bool drawing_ = false;
  const char* position_ = "";
  const ThreadCalls* calls_ = nullptr;
  unsigned crashes_ = 0;
  const ScheduledRun* parent_ = nullptr;
  Crash crash_ = {};  // the crash that this run follows
};

pmem::Pool::ArenaOptions ArenaOf(const ScheduledRun::Shared& shared, const ArenaMemory& memory,
                                 pmem::Tracer* tracer);
// Opens what a crash has left, or creates the engine if there is none. `problem`: why it failed.
OpenPool OpenScheduled(const ScheduledRun::Shared& shared, const ArenaMemory& memory,
                       pmem::Tracer* tracer, std::string* problem);

}  // namespace lodgekv::test
