// SSTree (see README.md): the engine.
//
// A Put: PointWrites finds the leaf and locks it with PairWriter (pair_writer.h), which stores the
// pair in a free slot of the leaf's head subnode and commits it by one store of the head's word
// (head_writer.h, leaf_writer.h). A full head gets a new subnode before it (head replacement); a
// leaf with N full subnodes splits (leaf_split.h). An update of a pair in an overflow subnode moves
// it to the head (item movement), and the overflow subnode that a write empties is reclaimed with
// it. Several operations share fences (write_group.h). Atomic batches write an intent first.
// Readers: lookups.h, scan.cc.
//
// INVARIANT: what is acknowledged is durable, and what a reader sees is durable too, or is returned
// only after the fence that makes it so (node/leaf_commit.h).
//
// Thread-safe. Locks are in DRAM, in each leaf's metadata (leaf.h): a writer holds its leaf's lock
// across its fences. Parents are locked after leaves; a second leaf is only tried.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/engine_info.h"
#include "index/sstree/lookups.h"
#include "index/sstree/pair_writer.h"
#include "index/sstree/tree_state.h"

namespace lodgekv::sstree {

template <class C>
class SsTree final : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineContext& context);
  static absl::StatusOr<std::unique_ptr<Engine>> Recover(const EngineContext& context,
                                                         RecoveryReport* report);
  static absl::StatusOr<std::unique_ptr<Engine>> BulkLoad(const EngineContext& context,
                                                          const lodgekv::BulkLoad& load);
  ~SsTree() override;

  Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                const WriteOptions& options) override;
  Outcome Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
               const ReadOptions& options) override;
  Outcome Scan(const ScanOptions& options, ScanVisitor visitor) override;
  uint64_t CountKeys() override;
  CheckReport Check() override;
  CheckReport CheckInPassing(CheckPause go_on) override;
  uint64_t AppliedIndex() const override;
  void VisitCounters(CounterVisitor visitor) const override;
  MemoryUse GetMemoryUse() const override;
  RecoveryState GetRecoveryState() const override;
  absl::Status Close() override;
  void Abandon() override;

 private:
  explicit SsTree(const EngineContext& context);

  TreeState<C> tree_;
  const Lookups<C> lookups_;
  PairWriter<C> pair_writer_;
};

}  // namespace lodgekv::sstree
