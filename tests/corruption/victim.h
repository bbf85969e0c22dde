// A small pool that contains every kind of data, whose content is known, and which is damaged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "index/pmem/pool.h"
#include "tests/corruption/interrogation.h"
#include "tests/corruption/trials.h"
#include "tests/support/arena_memory.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

// A range of bytes of one kind.
struct Region {
  std::string name;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t unit_bytes = 0;  // of equal units in it; 0: no units
  pmem::ChunkUse use = pmem::ChunkUse::kFree;
};

class Victim {
 public:
  // closed: cleanly; otherwise as a killed process leaves it.
  Victim(const EngineCase& engine_case, bool closed);

  const EngineCase& engine_case() const { return case_; }
  uint64_t bytes() const { return image_.span().size(); }
  const std::vector<Region>& regions() const { return regions_; }
  const Region& RegionOf(uint64_t offset) const;
  // The pool's own bytes, undamaged.
  std::span<const std::byte> image() const { return image_.span(); }

  // Opens a copy with the bit inverted.
  Verdict Flip(uint64_t offset, unsigned bit) const;
  // Opens a copy truncated to `bytes`.
  Verdict Truncate(uint64_t bytes) const;

 private:
  void FindRegions();
  Verdict Try(std::span<std::byte> memory) const;
  EngineContext ContextOf(pmem::Pool* pool) const;

  const EngineCase case_;
  ArenaMemory image_;
  mutable ArenaMemory copy_;
  Content content_;
  std::vector<Region> regions_;
};

}  // namespace lodgekv::test
