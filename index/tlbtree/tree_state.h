// The state shared by the parts of a TLBtree: its space on the medium, the two layers' seats, its
// locks, and the state of each thread. The operations are in the parts, classes that hold a
// reference to this.
//
// Members are in the order of construction, and are destroyed in reverse. The engine (tlbtree.h)
// owns it and stops the background worker first.
//
// Thread-safe as its members are.
#pragma once

#include <atomic>
#include <cstdint>

#include "index/engine_info.h"
#include "index/node/applied_index.h"
#include "index/node/background_worker.h"
#include "index/node/batch_intent.h"
#include "index/node/key_locks.h"
#include "index/node/leaf_space.h"
#include "index/node/reclaimer.h"
#include "index/node/rest_of_recovery.h"
#include "index/node/stored_values.h"
#include "index/pmem/per_worker.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/unit_arena.h"
#include "index/tlbtree/first_touch.h"
#include "index/tlbtree/node_locks.h"
#include "index/tlbtree/node_search.h"
#include "index/tlbtree/sweep.h"
#include "index/tlbtree/top_layer.h"
#include "index/tlbtree/worker.h"

namespace lodgekv::tlbtree {

// The engine's options; see registration.cc for bounds and documentation.
struct Parameters {
  unsigned leaf_slots;  // used slots of a leaf
  unsigned node_slots;  // children of a root besides the leftmost one
  unsigned height;      // of a sub-index, at most
  unsigned gaps;        // in a leaf node of the top layer
  unsigned rebuild_steps;
  bool entry_moving;
  bool split_entries;
  bool merges;
  bool root_hints;
  bool top_shortcuts;

  Parameters(const OptionValues& options, unsigned most_slots, unsigned most_children);
};

template <class C>
struct TreeState {
  using Node = media::Node<C>;
  using Anchor = media::Anchor;

  explicit TreeState(const EngineContext& context);

  Node* NodeAt(pmem::Offset offset) const { return pool.At<Node>(offset); }
  Anchor* AnchorAt(pmem::Offset offset) const { return pool.At<Anchor>(offset); }
  pmem::Offset first_anchor() const {
    return pool.engine_area()[media::kFirstAnchor].LoadRelaxed() & kCheckedMask;
  }
  uint32_t usable_slots() const { return (uint32_t{1} << parameters.leaf_slots) - 1; }
  static bool HasRecord(Pair pair) {
    if constexpr (C::kRecords) return C::IsRecord(pair.value);
    return false;
  }
  // The pair's key, as its record has it.
  std::string KeyOf(Pair pair) const {
    if constexpr (C::kRecords) {
      char scratch[8];
      return std::string(codec.KeyText(pair, scratch));
    } else {
      return C::TextOf(pair.key);
    }
  }

  // A node or an anchor that nobody else knows yet; 0: the pool is full.
  pmem::Offset NewUnit(pmem::UnitArena& arena, pmem::ReservePolicy policy) {
    return Known(arena.Allocate(policy));
  }
  pmem::Offset Known(pmem::Offset unit) {
    if (unit != 0 && touch.active()) touch.NoteDone(unit);
    return unit;
  }
  // Call before the store that unlinks it, and before one that moves a link to the left
  // (pmem/unit_arena.h, invariant 3).
  void HoldUnit(pmem::UnitArena& arena, pmem::Offset unit) const {
    if (pool.finding_space() && !medium.Canary("tlbtree.sweep.unit_not_held")) arena.Hold(unit);
  }
  void HoldRecord(uint64_t value_word) {
    if constexpr (C::kRecords) {
      if (pool.finding_space() && C::IsRecord(value_word) &&
          !medium.Canary("tlbtree.sweep.record_not_held")) {
        slab.Hold(C::RecordOf(value_word));
      }
    }
  }
  // Nothing refers to it any more: its space is freed once no reader can access it.
  void RetireRecord(Worker& worker, uint64_t value_word) {
    if constexpr (C::kRecords) {
      if (C::IsRecord(value_word)) RetireSpace(worker, C::RecordOf(value_word));
    }
  }
  void RetireSpace(Worker& worker, pmem::Offset record) {
    // After a failed sync its replacement may not be durable.
    if (record != 0 && !medium.failed()) worker.retired.Add(slab, record);
  }

  pmem::Pool& pool;
  pmem::Medium& medium;
  const Parameters parameters;
  pmem::UnitArena nodes;
  pmem::UnitArena anchors;
  LeafSpace space{nodes};
  pmem::RecordSlab slab;
  C codec;
  const StoredValues<C> values;
  const NodeSearch<C> search;
  const NodeLocks<C> locks;
  KeyLocks key_locks;
  BatchIntents intents;
  AppliedIndex applied{pool};
  BackgroundWorker background;
  Reclaimer reclaimer;
  TopLayer<C> top;                    // the top seat
  std::atomic<uint64_t> sideways{0};  // steps since the top layer was built
  std::atomic<bool> rebuild_posted{false};
  std::atomic<uint64_t> dead_in_vain{0};  // anchors, when a rebuild last came to nothing
  FirstTouch touch;
  Sweep<C> sweep{*this};
  RestOfRecovery rest;
  pmem::PerWorker<Worker> workers;
};

}  // namespace lodgekv::tlbtree
