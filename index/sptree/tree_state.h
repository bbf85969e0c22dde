// The state shared by the parts of an SPTree: its space on the medium, its nodes in DRAM, and the
// state of each thread. The operations are in the parts, classes that hold a reference to this.
//
// Members are in the order of construction, and are destroyed in reverse. The engine (sptree.h)
// owns it and stops the background worker first.
//
// Thread-safe as its members are.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "index/engine.h"
#include "index/node/append_log.h"
#include "index/node/applied_index.h"
#include "index/node/background_worker.h"
#include "index/node/batch_intent.h"
#include "index/node/codec.h"
#include "index/node/dram_arena.h"
#include "index/node/fence_horizon.h"
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
#include "index/sptree/buffer_pool.h"
#include "index/sptree/first_touch.h"
#include "index/sptree/home_line.h"
#include "index/sptree/layout.h"
#include "index/sptree/mnode.h"
#include "index/sptree/pending_log.h"
#include "index/sptree/sweep.h"
#include "index/sptree/top_backup.h"
#include "index/sptree/top_layer.h"
#include "index/sptree/worker.h"

namespace lodgekv::sptree {

// The engine's options; see registration.cc for bounds and documentation.
struct Parameters {
  unsigned leaf_slots;  // used slots of a leaf
  bool filter;
  bool tags;
  bool home_lines;  // not beside write buffers
  bool seqs;
  bool merge;
  bool two_phase;
  bool backup;
  bool lazy_replay;
  unsigned write_buffer_pairs;  // 0: writes go to the leaves directly
  unsigned write_buffer_share;  // percent

  explicit Parameters(const OptionValues& options);
};

template <class C>
struct TreeState {
  explicit TreeState(const EngineContext& context);

  media::Bnode* BnodeAt(pmem::Offset offset) const { return pool.At<media::Bnode>(offset); }
  uint64_t usable_slots() const { return ~uint64_t{0} >> (kBnodeSlots - parameters.leaf_slots); }
  // Where a pair with this hash is put (home_line.h). There is a free slot.
  unsigned SlotFor(uint16_t hash, uint64_t free_slots) const {
    return FirstFreeFrom(parameters.home_lines ? HomeOf(hash) : 0, free_slots);
  }
  bool buffers() const { return parameters.write_buffer_pairs != 0; }
  // As far as is known, while not all of them have Mnodes.
  uint64_t LeafCount() const;
  uint64_t LogLimit() const;
  uint64_t BufferLimit() const;
  std::vector<pmem::UnitArena*> Arenas();
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
  pmem::UnitArena bnodes;
  LeafSpace space{bnodes};
  pmem::RecordSlab slab;
  DramArena dram;
  C codec;
  const StoredValues<C> values;
  SeparatorTexts texts;
  NodePool<Mnode<C>> mnodes;
  BufferPool buffer_pool;
  const LeafCommits<Mnode<C>> commits;
  TopLayer<C> top;
  AppendLog log;
  FenceHorizon horizon;  // codecs with records
  KeyLocks key_locks;
  BatchIntents intents;
  AppliedIndex applied{pool};
  BackgroundWorker background;
  Reclaimer reclaimer;
  TopBackup backup;
  std::atomic<bool> backup_posted{false};
  SettleAtTouch settling;
  PendingLog<C> pending_log{*this};
  FirstTouch<C> first_touch{*this};
  Sweep<C> sweep{*this};
  RestOfRecovery rest;
  pmem::PerWorker<Worker> workers;
};

}  // namespace lodgekv::sptree
