// One life of a pool: from creation or a crash to the next crash, with images drawn all along.
#pragma once

#include <memory>
#include <string>

#include "tests/crash/explorer.h"

namespace lodgekv::test {

// What a crash left, opened: the pool and its engine, created anew where creation was cut.
struct OpenPool {
  std::unique_ptr<pmem::Pool> pool;  // outlives the engine
  std::unique_ptr<Engine> engine;

  OpenPool() = default;
  OpenPool(OpenPool&&) = default;
  OpenPool& operator=(OpenPool&&) = delete;
  ~OpenPool() { engine.reset(); }
};

// Of the pools of a case; `run` tells them apart.
pmem::PoolIdentity IdentityOf(const EngineCase& engine_case, uint64_t run);

class Explorer::Life {
 public:
  // `memory` holds the image that the life begins with, or anything for Create.
  // `crashes`: how many came before it.
  Life(Explorer& explorer, unsigned depth, unsigned crashes, Oracle oracle, ArenaMemory memory);
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
  pmem::Pool::ArenaOptions ArenaOf(const ArenaMemory& memory, pmem::Tracer* tracer) const;
  EngineContext ContextOf(pmem::Pool* pool) const;
  // Opens by the engine's real recovery.
  absl::Status Open(const ArenaMemory& memory, pmem::Tracer* tracer, OpenPool* open) const;
  void TakeStep(const Step& step);
  void Explore(const char* position);
  bool TryImage(const ImageSet& images, const ImageSet::Picks& picks);
  std::unique_ptr<Life> MakeHeir(const ImageSet& images, const ImageSet::Picks& picks,
                                 unsigned depth) const;
  void LiveOn(const ImageSet& images, const ImageSet::Picks& picks);
  void Fail(const std::string& what, const std::string& image);

  Explorer& explorer_;
  const ExplorerOptions& options_;
  const unsigned depth_;  // of lives begun while another is looked at
  const unsigned crashes_;
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
