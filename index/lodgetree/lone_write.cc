// The slow ways of a lone write, and deletes.
#include "index/lodgetree/lone_write.h"

#include <bit>

#include "index/lodgetree/node_merge.h"

namespace lodgekv::lodgetree {

// Before the lock, so that the lines are fetched while the previous fence is waited for.
template <class C>
[[gnu::noinline]] void LoneWrite<C>::PlanDrain() {
  parts_.planner.ChooseTargets(node_, leaf_, &worker_.plan);
  if (worker_.plan.splits > 0) worker_.spares.Prefetch(parts_.pool);
}

template <class C>
[[gnu::noinline]] bool LoneWrite<C>::Delete(uint64_t now, WriteResult* result) {
  *result = {};
  empties_ = MayEmptyLeaf();
  bool decided;
  if constexpr (C::kRecords) {
    decided = DeleteRecord(now, result);
  } else if (parts_.medium.long_fences()) {
    decided = FindThenDelete(result);
  } else {
    decided = LogThenDelete(result);
  }
  if (!decided) {
    *result = {};
  } else if (parts_.medium.failed()) {
    *result = {Outcome::kMediumFailed, false, 0};
  }
  return decided;
}

// As of the snapshot.
template <class C>
bool LoneWrite<C>::MayEmptyLeaf() const {
  const OptimisticSection section;
  const auto deleted = static_cast<unsigned>(std::popcount(node_->GroupMask(leaf_))) + 1;
  return deleted >= node_->leaf_count[leaf_];
}

// Of pairs with records, which only the lock keeps from being freed: the tombstone names the pair.
template <class C>
bool LoneWrite<C>::DeleteRecord(uint64_t now, WriteResult* result) {
  if (!Lock(pmem::ReservePolicy::kUse)) return false;
  const int slot = parts_.access.FindInLeaf(node_, leaf_, key_);
  if (slot >= 0) {
    const media::Leaf* leaf = parts_.access.LeafAt(node_, leaf_);
    const uint64_t value = SlotPair(leaf, static_cast<unsigned>(slot)).value;
    if (parts_.values.IsSound(value)) {
      result->found = parts_.values.Describe(value, now).live();
      StagedPair<C> staged{.pair = {key_.word, value}};
      if constexpr (C::kRecords) {
        if (C::IsRecord(value)) staged.record.crc = ViewRecord(parts_.pool, C::RecordOf(value)).crc;
      }
      Tombstone tombstone{.has_victim = true};
      Apply(&staged, &tombstone);
      return true;
    }
  }
  node_->lock.Unlock();
  return slot < 0;
}

// Of pairs without records: the leaf is read before the lock, so that its cache misses overlap with
// the previous fence, and nothing is logged for a key that is not there.
template <class C>
bool LoneWrite<C>::FindThenDelete(WriteResult* result) {
  {
    const OptimisticSection section;
    uint32_t slots = node_->mirrors[leaf_].Candidates(FingerprintOf(key_.hash));
    const pmem::Offset offset = node_->values[leaf_];
    // An address that may not be a leaf's is not followed.
    if (!node_->lock.Validate(snapshot_)) return false;
    const auto* media = parts_.pool.template At<media::Leaf>(offset);
    for (; slots != 0 && !result->found; slots &= slots - 1) {
      const Pair pair = SlotPair(media, static_cast<unsigned>(std::countr_zero(slots)));
      result->found = pair.key == key_.word;
    }
  }
  if (!result->found) return node_->lock.Validate(snapshot_);
  if (!Lock(pmem::ReservePolicy::kUse)) return false;
  StagedPair<C> staged{.pair = {key_.word, 0}};
  Tombstone tombstone{.has_victim = true};
  Apply(&staged, &tombstone);
  return true;
}

// Of pairs without records, where a fence is short: the tombstone is logged before the leaf is
// read, so that the misses on its slots and the fence are waited for together. If the leaf has the
// key's fingerprint and not the key, the entry was superfluous, and is dead at once.
template <class C>
bool LoneWrite<C>::LogThenDelete(WriteResult* result) {
  {
    const OptimisticSection section;
    if (node_->mirrors[leaf_].Candidates(FingerprintOf(key_.hash)) == 0)
      return node_->lock.Validate(snapshot_);
    parts_.access.FetchSlots(node_, leaf_, key_);
  }
  if (!Lock(pmem::ReservePolicy::kUse)) return false;
  StagedPair<C> staged{.pair = {key_.word, 0}};
  Tombstone tombstone{.has_victim = false};
  Apply(&staged, &tombstone);
  result->found = tombstone.has_victim;
  return true;
}

// Like LogAndBuffer, with a drain: before the pair is buffered, if there is no room, and after it,
// if it may leave a leaf without pairs.
template <class C>
[[gnu::noinline]] uint64_t LoneWrite<C>::LogAndDrain(StagedPair<C>* staged, Tombstone* tombstone) {
  const auto [sequence, log] = LogPair(staged, tombstone);
  Node* node = node_;
  unsigned leaf = leaf_;
  NodeWriter<C> nodes(parts_, worker_);
  nodes.held.Add(node);
  nodes.plan_ready = drains_;
  if (drains_) node = nodes.MakeBufferRoom(node, key_, sequence, &leaf);
  nodes.EnsureFenced();
  if constexpr (C::kRecords) parts_.horizon.EndTaking();
  Buffer(node, leaf, staged->pair, tombstone, log);
  if (tombstone != nullptr && parts_.planner.IsEmptied(node, leaf))
    nodes.DrainLeaf(node, leaf, key_, sequence);
  nodes.held.UnlockAll();
  FinishWrite(parts_, worker_);
  return sequence;
}

template class LoneWrite<Fixed64Codec>;
template class LoneWrite<BytesCodec>;

}  // namespace lodgekv::lodgetree
