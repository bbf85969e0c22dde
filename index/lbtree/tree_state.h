// The state shared by the parts of an LB+-Tree: its space on the medium, its nodes in DRAM, its
// locks, and the state of each thread. The operations are in the parts, classes that hold a
// reference to this.
//
// Members are in the order of construction, and are destroyed in reverse. The engine (lbtree.h)
// owns it and stops the background worker first.
//
// Thread-safe as its members are.
#pragma once

#include <cstdint>

#include "index/engine.h"
#include "index/lbtree/layout.h"
#include "index/lbtree/leaf_locks.h"
#include "index/lbtree/worker.h"
#include "index/node/applied_index.h"
#include "index/node/background_worker.h"
#include "index/node/batch_intent.h"
#include "index/node/codec.h"
#include "index/node/dram_arena.h"
#include "index/node/inner_tree.h"
#include "index/node/key_locks.h"
#include "index/node/leaf_space.h"
#include "index/node/reclaimer.h"
#include "index/node/rest_of_recovery.h"
#include "index/node/separator_texts.h"
#include "index/node/settle_at_touch.h"
#include "index/node/stored_values.h"
#include "index/pmem/per_worker.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv::lbtree {

// The engine's options; see registration.cc for bounds and documentation.
struct Parameters {
  unsigned leaf_slots;  // used slots of a block
  bool entry_moving;
  bool fingerprints;
  bool logless_split;
  bool unlink_leaves;

  explicit Parameters(const OptionValues& options);
};

template <class C>
struct TreeState {
  using Inner = InnerTree<C, media::Block, LeafAccess>;
  using Bounds = typename Inner::Bounds;

  TreeState(const EngineContext& context, unsigned leaf_blocks);

  size_t leaf_bytes() const { return blocks * sizeof(media::Block); }
  media::Block* LeafAt(pmem::Offset offset) const { return pool.At<media::Block>(offset); }
  static bool HasRecord(Pair pair) {
    if constexpr (C::kRecords) return C::IsRecord(pair.value);
    return false;
  }
  // Call before the content of the key's leaf is believed or changed (node/settle_at_touch.h).
  void Touch(const typename C::Key& key) const {
    if (settling.unfinished()) [[unlikely]]
      TouchUnsettled(key);
  }
  [[gnu::noinline, gnu::cold]] void TouchUnsettled(const typename C::Key& key) const {
    settling.Touch(C::TextOf(key));
  }
  // Nothing refers to it any more: its space is freed once no reader can access it.
  void RetireRecord(Worker& worker, uint64_t value_word) {
    if constexpr (C::kRecords) {
      // After a failed sync its replacement may not be durable.
      if (C::IsRecord(value_word) && !medium.failed()) {
        worker.retired.Add(slab, C::RecordOf(value_word));
      }
    }
  }

  pmem::Pool& pool;
  pmem::Medium& medium;
  const Parameters parameters;
  const unsigned blocks;        // m
  const uint32_t usable_slots;  // of a block
  pmem::UnitArena leaves;
  LeafSpace space{leaves};
  pmem::RecordSlab slab;
  DramArena dram;
  C codec;
  const StoredValues<C> values;
  SeparatorTexts texts;
  const LeafLocks locks;
  Inner inner;
  KeyLocks key_locks;
  BatchIntents intents;
  AppliedIndex applied{pool};
  BackgroundWorker background;
  Reclaimer reclaimer;
  SettleAtTouch settling;
  RestOfRecovery rest;
  pmem::PerWorker<Worker> workers;
};

}  // namespace lodgekv::lbtree
