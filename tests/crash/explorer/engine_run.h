// One run of an engine on a pool: from creation or a crash to the next crash, with images drawn
// throughout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/crash/explorer/explorer.h"
#include "tests/crash/explorer/open_pool.h"
#include "tests/crash/lab/script.h"

namespace lodgekv::test {

// The runs that preceded a run. Shared, since there are many runs.
struct Past {
  std::shared_ptr<const Past> before;
  std::shared_ptr<const std::vector<TakenStep>> steps;  // only the first `count` were taken
  size_t count = 0;
  uint64_t worker = 0;
  CrashAt crash;
};

class Explorer::EngineRun {
 public:
  // `memory` holds the image that the run begins with, or anything for Create. `crashes`: the
  // number of crashes before it.
  EngineRun(Explorer& explorer, unsigned depth, unsigned crashes, Oracle oracle, ArenaMemory memory,
            std::shared_ptr<const Past> past);
  ~EngineRun();

  void Create();
  void Recover();
  void Steps(unsigned count);
  void WarmUp(unsigned puts);
  // The run that follows a power cut: it begins with one of the images that were checked, each with
  // the same probability.
  std::unique_ptr<EngineRun> TakeSuccessor();
  // The current place, human-readable.
  std::string Locate() const;

 private:
  void Moves();  // tells the watchdog
  absl::Status Open(const ArenaMemory& memory, pmem::Tracer* tracer, OpenPool* open) const;
  void TakeStep(const Step& step);
  void Explore(const char* position);
  bool TryImage(const ImageSet& images, const ImageSet::Picks& picks);
  std::unique_ptr<EngineRun> MakeSuccessor(const ImageSet& images, const ImageSet::Picks& picks,
                                           unsigned depth) const;
  void Continue(const ImageSet& images, const ImageSet::Picks& picks);
  CrashAt CrashHere(const ImageSet& images, const ImageSet::Picks& picks) const;
  // `crash`: the failing image, if an image fails.
  void Fail(const std::string& what, const std::string& image = "", const CrashAt& crash = {});
  Script ScriptSoFar(const CrashAt& crash) const;

  Explorer& explorer_;
  const ExplorerOptions& options_;
  const unsigned depth_;  // of runs nested in the checks of another
  const unsigned crashes_;
  const std::shared_ptr<const Past> past_;
  const std::shared_ptr<std::vector<TakenStep>> taken_ = std::make_shared<std::vector<TakenStep>>();
  uint64_t worker_ = 0;
  uint64_t fences_before_step_ = 0;
  uint64_t stores_explored_ = 0;
  bool step_done_ = false;
  ArenaMemory memory_;
  Oracle oracle_;
  std::unique_ptr<CrashTracer> tracer_;
  OpenPool open_;
  ArenaMemory image_;
  bool exploring_ = true;
  std::unique_ptr<EngineRun> successor_;
  uint64_t successors_seen_ = 0;
  uint64_t step_ = 0;
  std::string doing_;
  const char* position_ = "";
};

}  // namespace lodgekv::test
