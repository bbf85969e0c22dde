// Allocates units for leaves that grow or split: from the arena, or from those that an atomic batch
// has set aside since it must not run out of space once its intent is committed.
//
// Thread-safe; the spare units are those of the calling thread. Only recovery calls set_reserve.
#pragma once

#include <cstddef>
#include <vector>

#include "index/pmem/unit_arena.h"

namespace lodgekv {

class LeafSpace {
 public:
  using Spare = std::vector<pmem::Offset>;

  explicit LeafSpace(pmem::UnitArena& leaves) : leaves_(leaves) {}

  // 0: the pool is full.
  pmem::Offset Take(Spare& spare) {
    if (spare.empty()) return leaves_.Allocate(reserve_);
    const pmem::Offset leaf = spare.back();
    spare.pop_back();
    return leaf;
  }

  // Increases the spare units to `count`. False: the pool is full.
  bool SetAside(Spare& spare, size_t count) {
    while (spare.size() < count) {
      const pmem::Offset leaf = leaves_.Allocate(pmem::ReservePolicy::kKeep);
      if (leaf == 0) return false;
      spare.push_back(leaf);
    }
    return true;
  }
  void FreeSpare(Spare& spare) {
    for (; !spare.empty(); spare.pop_back()) leaves_.Free(spare.back());
  }

  // kUse: splits may also use the space reserved for emptying the pool.
  void set_reserve(pmem::ReservePolicy policy) { reserve_ = policy; }
  pmem::ReservePolicy reserve() const { return reserve_; }

 private:
  pmem::UnitArena& leaves_;
  pmem::ReservePolicy reserve_ = pmem::ReservePolicy::kKeep;
};

}  // namespace lodgekv
