// Allocates leaves for splits: from the arena, or from those that an atomic batch has set aside
// since it must not run out of space once its intent is committed.
//
// Thread-safe; a worker's spare leaves belong to its thread. Only recovery calls set_reserve.
#pragma once

#include <cstddef>

#include "index/lbtree/worker.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv::lbtree {

class LeafSpace {
 public:
  explicit LeafSpace(pmem::UnitArena& leaves) : leaves_(leaves) {}

  // 0: the pool is full.
  pmem::Offset Take(Worker& worker) {
    if (worker.spare_leaves.empty()) return leaves_.Allocate(reserve_);
    const pmem::Offset leaf = worker.spare_leaves.back();
    worker.spare_leaves.pop_back();
    return leaf;
  }

  // Increases the spare leaves to `count`. False: the pool is full.
  bool SetAside(Worker& worker, size_t count) {
    while (worker.spare_leaves.size() < count) {
      const pmem::Offset leaf = leaves_.Allocate(pmem::ReservePolicy::kKeep);
      if (leaf == 0) return false;
      worker.spare_leaves.push_back(leaf);
    }
    return true;
  }
  void FreeSpare(Worker& worker) {
    for (; !worker.spare_leaves.empty(); worker.spare_leaves.pop_back()) {
      leaves_.Free(worker.spare_leaves.back());
    }
  }

  // kUse: splits may also use the space reserved for emptying the pool.
  void set_reserve(pmem::ReservePolicy policy) { reserve_ = policy; }

 private:
  pmem::UnitArena& leaves_;
  pmem::ReservePolicy reserve_ = pmem::ReservePolicy::kKeep;
};

}  // namespace lodgekv::lbtree
