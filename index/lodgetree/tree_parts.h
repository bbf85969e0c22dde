// The state shared by the parts of one tree: the classes that write leaves, drain buffers, split
// and join nodes and reclaim space all work on one TreeParts.
#pragma once

#include <cstdint>
#include <mutex>

#include "index/engine.h"
#include "index/engine_info.h"
#include "index/lodgetree/applied_entry.h"
#include "index/lodgetree/drain_plan.h"
#include "index/lodgetree/holding_nodes.h"
#include "index/lodgetree/last_level_node.h"
#include "index/lodgetree/leaf_access.h"
#include "index/lodgetree/parameters.h"
#include "index/lodgetree/spare_space.h"
#include "index/lodgetree/worker.h"
#include "index/node/append_log.h"
#include "index/node/background_worker.h"
#include "index/node/codec.h"
#include "index/node/dram_arena.h"
#include "index/node/fence_horizon.h"
#include "index/node/inner_tree.h"
#include "index/node/node_pool.h"
#include "index/node/reclaimer.h"
#include "index/node/rest_of_recovery.h"
#include "index/node/separator_texts.h"
#include "index/node/settle_at_touch.h"
#include "index/node/stored_values.h"
#include "index/pmem/full_memo.h"
#include "index/pmem/per_worker.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv::lodgetree {

template <class C>
struct TreeParts {
  using Node = LastLevelNode<C>;
  using Inner = InnerTree<C, Node>;

  TreeParts(const EngineContext& context, unsigned log_entries);
  TreeParts(const TreeParts&) = delete;
  TreeParts& operator=(const TreeParts&) = delete;

  Worker<C>& CurrentWorker() { return workers.Current(); }
  // As NodePool::New and Make, with what the options give a node.
  Node* NewNode();
  void MakeNodes(std::span<Node*> made);
  // Of a pair in a leaf, in a tree that mirrors records.
  uint64_t RecordWordOf(Pair pair) const {
    if constexpr (C::kRecords) {
      return record_words.WordOf(C::RecordOf(pair.value), codec.HashOf(pair));
    }
    return 0;
  }
  // global_counter of III-C: no clock is read, no shared line is written.
  uint32_t Tick() const { return static_cast<uint32_t>(pool.PeekSequence() >> 10); }
  uint64_t LogLimit() const;
  std::vector<pmem::UnitArena*> Arenas();
  // Call before the leaf changes on the medium (node/settle_at_touch.h).
  void Touch(const Node* node, unsigned leaf) const {
    if (settling.unfinished()) [[unlikely]]
      TouchUnsettled(node, leaf);
  }
  [[gnu::noinline, gnu::cold]] void TouchUnsettled(const Node* node, unsigned leaf) const {
    settling.Touch(C::TextOf(node->LowOf(leaf)));
  }

  pmem::Pool& pool;
  pmem::Medium& medium;
  const Parameters parameters;
  const RecordWordForm record_words;
  const bool mirrors_records;  // never in pools of inline pairs
  const unsigned threads;      // for the work before the first call and after the last
  pmem::UnitArena leaves;
  pmem::RecordSlab slab;
  DramArena dram;
  C codec;
  const StoredValues<C> values;
  SeparatorTexts texts;
  Inner tree;
  NodePool<Node> nodes;
  AppendLog log;
  AppliedEntry applied;
  FenceHorizon horizon;  // codecs with records
  LongestKey longest_key;
  const SpareSource spare_source;
  // Its thread uses the members above; the engine stops it before any of them is destroyed.
  BackgroundWorker background;
  Reclaimer reclaimer;
  const LeafAccess<C> access;
  const DrainPlanner<C> planner;
  SpaceHolders<C> holders;
  std::mutex reclaim_mutex;   // one thread at a time reclaims space in a full pool
  pmem::FullMemo logs_stuck;  // what log_reclaim.cc has tried in vain
  SettleAtTouch settling;
  RestOfRecovery rest;
  pmem::PerWorker<Worker<C>> workers;
};

}  // namespace lodgekv::lodgetree
