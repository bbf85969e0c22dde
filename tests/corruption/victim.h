// A small pool with something of everything in it, whose content is known, and which is damaged.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "index/pmem/pool.h"
#include "tests/corruption/trials.h"
#include "tests/support/arena_memory.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

using Content = std::map<std::string, std::string>;

// Puts, replaces and deletes through all ways of writing, and notes what must be there. The last
// `fresh` puts come behind everything else.
Content Furnish(Engine& engine, const EngineCase& engine_case, uint64_t puts, uint64_t fresh);

// Everything that can be asked, against what must be there; then some more work on it.
Verdict Interrogate(Engine& engine, const EngineCase& engine_case, const Content& content);

// A message that says where: an offset, a row, a word, a number of bytes.
bool NamesAPlace(const std::string& message);

// A run of bytes that are one kind of thing.
struct Region {
  std::string name;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t unit_bytes = 0;  // of the equal things in it; 0: one thing
  pmem::ChunkUse use = pmem::ChunkUse::kFree;
};

class Victim {
 public:
  // closed: in order; otherwise as a killed process leaves it.
  Victim(const EngineCase& engine_case, bool closed);

  const EngineCase& engine_case() const { return case_; }
  uint64_t bytes() const { return image_.span().size(); }
  const std::vector<Region>& regions() const { return regions_; }
  const Region& RegionOf(uint64_t offset) const;
  // The pool's own bytes, undamaged.
  std::span<const std::byte> image() const { return image_.span(); }

  // Opens a copy of which the bit is the other way round.
  Verdict Flip(uint64_t offset, unsigned bit) const;
  // Opens a copy that ends at `bytes`.
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
