// Recovery of atomic batches (batch_intent.h): finds the intents, marks what they name, and applies
// them, in every engine without a log of its own. The crash table is in index/node/README.md.
//
// Until an intent is retired all its records are in use, wherever they are: a put's may be in its
// leaf already, a deleted pair's may be gone from it.
//
// It belongs to the thread that opens the pool.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "index/engine_info.h"
#include "index/node/batch_intent.h"
#include "index/node/epoch.h"
#include "index/node/group_writes.h"
#include "index/node/record.h"
#include "index/node/recovery_tasks.h"
#include "index/node/search_form.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"

namespace lodgekv {

// State: an engine's parts (`intents`, `codec`, `slab`, `applied`, ...). Writer: its WriteTree.
template <class C, class State, class Writer>
class IntentRecovery {
 public:
  using Found = BatchIntents::Found;
  // Whether the records of all leaves are marked before those of intents.
  enum class LeavesMarked : uint8_t { kBefore, kLater };

  // `engine`: its name, for errors.
  IntentRecovery(std::string_view engine, State& tree, Writer& writer)
      : engine_(engine), tree_(tree), writer_(writer) {}

  // DataLoss if an intent, or something that it names, is damaged. If all leaves are marked, a
  // record that nothing but a delete names will be freed when that is done.
  absl::Status Mark(LeavesMarked leaves);

  // Applies all intents, one after the other, and retires them; calls before(intent) first. The
  // pool is in use. ResourceExhausted if it is too full: the intents stay.
  template <class Before>
  absl::Status Apply(RecoveryReport* report, Before before);
  absl::Status Apply(RecoveryReport* report) {
    return Apply(report, [](const Found&) {});
  }

  // Where the leaves are marked later, before an intent is applied: what it has deleted already is
  // in no leaf, and nothing else refers to it. `lookups`: the tree's, of the kind that PointReads
  // requires.
  template <class Lookups>
  void NoteGone(const Found& intent, const Lookups& lookups);
  bool empty() const { return intents_.empty(); }

 private:
  absl::Status MarkRecord(const Found& intent, const IntendedOp& op, LeavesMarked leaves);
  Outcome ApplyOne(const Found& intent);
  // Whether an engine that finds free space after it has begun to serve has found more.
  bool FindMoreSpace() {
    if constexpr (requires { tree_.rest; }) return tree_.rest.FinishNow();
    return false;
  }
  absl::Status StatusOf(Outcome outcome, const Found& intent) const;

  const std::string_view engine_;
  State& tree_;
  Writer& writer_;
  std::vector<Found> intents_;
  std::vector<pmem::Offset> gone_;  // records that only deletes name: freed when all is applied
};

template <class C, class State, class Writer>
absl::Status IntentRecovery<C, State, Writer>::Mark(LeavesMarked leaves) {
  auto found = tree_.intents.Find(engine_);
  if (!found.ok()) return found.status();
  intents_ = *std::move(found);
  if constexpr (C::kRecords) {
    for (const Found& intent : intents_) {
      for (const IntendedOp& op : intent.ops) {
        const absl::Status status = MarkRecord(intent, op, leaves);
        if (!status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

template <class C, class State, class Writer>
absl::Status IntentRecovery<C, State, Writer>::MarkRecord(const Found& intent, const IntendedOp& op,
                                                          LeavesMarked leaves) {
  if (!tree_.codec.PairIsSound(op.pair)) {
    return DamagedPool(engine_, "a damaged pair in the batch", intent.intent.body);
  }
  if (!C::IsRecord(op.pair.value)) return absl::OkStatus();
  const pmem::Offset record = C::RecordOf(op.pair.value);
  RecordView view;
  if (!VerifyRecord(tree_.pool, tree_.slab, record, &view)) {
    return DamagedPool(engine_, "a damaged record of a batch", record);
  }
  const bool alone = tree_.slab.Mark(record) == pmem::UnitArena::MarkResult::kMarked;
  if (alone && op.remove && leaves == LeavesMarked::kBefore) gone_.push_back(record);
  return absl::OkStatus();
}

template <class C, class State, class Writer>
template <class Lookups>
void IntentRecovery<C, State, Writer>::NoteGone(const Found& intent, const Lookups& lookups) {
  if constexpr (C::kRecords) {
    const EpochGuard guard;
    for (const IntendedOp& op : intent.ops) {
      if (!op.remove || !C::IsRecord(op.pair.value)) continue;
      char scratch[8];
      const auto key = C::MakeKey(tree_.codec.KeyText(op.pair, scratch));
      uint64_t there = 0;
      const bool found = lookups.template FindValueWord<SearchByPointer>(key, &there);
      if (!found || there != op.pair.value) gone_.push_back(C::RecordOf(op.pair.value));
    }
  }
}

// Doing it again does what was not done.
template <class C, class State, class Writer>
Outcome IntentRecovery<C, State, Writer>::ApplyOne(const Found& intent) {
  GroupWrites<C, Writer> writes(writer_);
  const Outcome outcome = writes.ApplyIntended(intent.ops);
  if (outcome != Outcome::kPoolFull || !FindMoreSpace()) return outcome;
  return writes.ApplyIntended(intent.ops);
}

template <class C, class State, class Writer>
absl::Status IntentRecovery<C, State, Writer>::StatusOf(Outcome outcome,
                                                        const Found& intent) const {
  if (outcome == Outcome::kPoolFull) {
    return absl::ResourceExhaustedError(
        "the pool is full: there is no leaf for a batch that was under way; nothing is lost");
  }
  if (outcome == Outcome::kDataLoss) {
    return DamagedPool(engine_, "a damaged leaf on the way of the batch", intent.intent.body);
  }
  return absl::OkStatus();
}

template <class C, class State, class Writer>
template <class Before>
absl::Status IntentRecovery<C, State, Writer>::Apply(RecoveryReport* report, Before before) {
  pmem::Medium& medium = tree_.medium;
  if (medium.Canary("node.intent_recovery.forgotten")) intents_.clear();
  for (Found& intent : intents_) {
    before(std::as_const(intent));
    const bool early = medium.Canary("node.intent_recovery.retired_first");
    if (early) tree_.intents.Retire(intent.intent);
    const absl::Status status = StatusOf(ApplyOne(intent), intent);
    if (!status.ok()) return status;
    if (intent.applied_index.has_value()) tree_.applied.Raise(*intent.applied_index);
    if (!early) tree_.intents.Retire(intent.intent);
    report->log_entries_replayed += intent.ops.size();
  }
  for (const pmem::Offset record : gone_) tree_.slab.Free(record);
  tree_.workers.Current().retired.HandTo(tree_.reclaimer);
  return absl::OkStatus();
}

}  // namespace lodgekv
