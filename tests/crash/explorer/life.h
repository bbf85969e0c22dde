// One life of a pool: from creation or a crash to the next crash, with images drawn all along.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/crash/explorer/explorer.h"
#include "tests/crash/explorer/open_pool.h"
#include "tests/crash/lab/script.h"

namespace lodgekv::test {

// What came before a life: the lives of which it is the heir. Shared, since lives are many.
struct Past {
  std::shared_ptr<const Past> before;
  std::shared_ptr<const std::vector<TakenStep>> steps;  // of which the first `count` were taken
  size_t count = 0;
  uint64_t hand = 0;
  CrashAt crash;
};

class Explorer::Life {
 public:
  // `memory` holds the image that the life begins with, or anything for Create.
  // `crashes`: how many came before it.
  Life(Explorer& explorer, unsigned depth, unsigned crashes, Oracle oracle, ArenaMemory memory,
       std::shared_ptr<const Past> past);
  ~Life();

  void Create();
  void Recover();
  void Steps(unsigned count);
  void WarmUp(unsigned puts);
  // The life that follows when the power goes off: from one of the images that were looked at, each
  // as likely as any other.
  std::unique_ptr<Life> TakeHeir();
  // Where it is, for a person.
  std::string Locate() const;

 private:
  void Moves();  // for the watchdog
  absl::Status Open(const ArenaMemory& memory, pmem::Tracer* tracer, OpenPool* open) const;
  void TakeStep(const Step& step);
  void Explore(const char* position);
  bool TryImage(const ImageSet& images, const ImageSet::Picks& picks);
  std::unique_ptr<Life> MakeHeir(const ImageSet& images, const ImageSet::Picks& picks,
                                 unsigned depth) const;
  void LiveOn(const ImageSet& images, const ImageSet::Picks& picks);
  CrashAt CrashHere(const ImageSet& images, const ImageSet::Picks& picks) const;
  // `crash`: with the image that fails, if it is one.
  void Fail(const std::string& what, const std::string& image = "", const CrashAt& crash = {});
  Script ScriptSoFar(const CrashAt& crash) const;

  Explorer& explorer_;
  const ExplorerOptions& options_;
  const unsigned depth_;  // of lives begun while another is looked at
  const unsigned crashes_;
  const std::shared_ptr<const Past> past_;
  const std::shared_ptr<std::vector<TakenStep>> taken_ = std::make_shared<std::vector<TakenStep>>();
  uint64_t hand_ = 0;
  uint64_t fences_before_step_ = 0;
  uint64_t stores_explored_ = 0;
  bool step_done_ = false;
  ArenaMemory memory_;
  Oracle oracle_;
  std::unique_ptr<CrashTracer> tracer_;
  OpenPool open_;
  ArenaMemory image_;
  bool exploring_ = true;
  std::unique_ptr<Life> heir_;
  uint64_t heirs_seen_ = 0;
  uint64_t step_ = 0;
  std::string doing_;
  const char* position_ = "";
};

}  // namespace lodgekv::test
