// The state shared by the parts of an SSTree: its space on the medium, its leaves and nodes in
// DRAM, and the state of each thread. The operations are in the parts, classes that hold a
// reference to this.
//
// Members are in the order of construction, and are destroyed in reverse. The engine (sstree.h)
// owns it and stops the background worker first.
//
// Thread-safe as its members are.
#pragma once

#include <atomic>
#include <cstdint>

#include "index/engine.h"
#include "index/node/applied_index.h"
#include "index/node/background_worker.h"
#include "index/node/batch_intent.h"
#include "index/node/codec.h"
#include "index/node/dram_arena.h"
#include "index/node/inner_tree.h"
#include "index/node/key_locks.h"
#include "index/node/leaf_commit.h"
#include "index/node/leaf_space.h"
#include "index/node/node_pool.h"
#include "index/node/reclaimer.h"
#include "index/node/rest_of_recovery.h"
#include "index/node/separator_texts.h"
#include "index/node/settle_at_touch.h"
#include "index/node/stored_values.h"
#include "index/pmem/per_worker.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/unit_arena.h"
#include "index/sstree/layout.h"
#include "index/sstree/leaf.h"
#include "index/sstree/worker.h"

namespace lodgekv::sstree {

// The engine's options; see registration.cc for bounds and documentation.
struct Parameters {
  unsigned subnodes;    // N
  unsigned leaf_slots;  // used slots of a subnode
  bool head_replacement;
  bool head_fingerprints;
  bool delegated_fingerprints;
  bool overflow_filter;
  bool item_movement;
  bool several_items;
  bool reclamation;
  bool entry_moving;
  bool fill_holes;
  bool drop_leaves;
  bool head_hints;

  explicit Parameters(const OptionValues& options);
  unsigned most_subnodes() const { return head_replacement ? subnodes : 1; }
};

// The calling thread's; no other thread ever has it.
uint64_t ThreadNumber();

template <class C>
struct TreeState {
  using Inner = InnerTree<C, Leaf, LeafAccess>;
  using Bounds = typename Inner::Bounds;

  explicit TreeState(const EngineContext& context);

  media::Subnode* SubnodeAt(pmem::Offset offset) const { return pool.At<media::Subnode>(offset); }
  media::Subnode* HeadOf(const Leaf& leaf) const { return SubnodeAt(leaf.place.head()); }
  // The next subnode in a list that has one.
  media::Subnode* NextOf(const media::Subnode& subnode) const {
    return SubnodeAt(subnode.next.LoadRelaxed() & kCheckedMask);
  }
  // The valid slots of all subnodes, as in a head's word. The leaf may be changing: the caller
  // validates, or holds its lock.
  uint64_t ValidOf(const Leaf& leaf) const {
    const uint64_t slots = leaf.place.slots();
    if (!leaf.place.more()) return slots;
    return slots | (commits.Durable(leaf, HeadOf(leaf)->word) & media::kValidMask & ~kSubnodeMask);
  }
  uint32_t usable_slots() const { return (uint32_t{1} << parameters.leaf_slots) - 1; }
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
  // Subnodes that a put may need. A split leaves a free slot, but only fill_holes uses one that is
  // not in the head; and of a leaf with more pairs than `leaf_slots` allows it takes so few that
  // there may be none to use before many splits.
  unsigned new_subnodes_of_put() const {
    if (longer_leaves.load(std::memory_order_relaxed)) [[unlikely]]
      return kMaxLeafSlots / (parameters.leaf_slots - 1) + kMaxSubnodes + 1;
    return parameters.fill_holes ? 1 : kMaxSubnodes + 1;
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
  // Nothing refers to what this thread has cut off any more, durably.
  void FenceAndFree(Worker& worker) {
    medium.Fence();
    FreeFenced(worker);
  }
  // The same after a fence.
  void FreeFenced(Worker& worker) {
    if (!worker.cut_off.empty()) [[unlikely]]
      FreeCutOff(worker);
  }
  [[gnu::noinline]] void FreeCutOff(Worker& worker);

  pmem::Pool& pool;
  pmem::Medium& medium;
  const Parameters parameters;
  // Recovery has found leaves with pairs in slots that are not used any more.
  std::atomic<bool> longer_leaves{false};
  pmem::UnitArena subnodes;
  LeafSpace space{subnodes};
  pmem::RecordSlab slab;
  DramArena dram;
  C codec;
  const StoredValues<C> values;
  SeparatorTexts texts;
  DramRange leaf_range;
  NodePool<Leaf, DramRange> leaves{leaf_range};
  const LeafCommits<Leaf> commits;
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

}  // namespace lodgekv::sstree
