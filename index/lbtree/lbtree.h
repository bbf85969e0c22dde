// LB+-Tree (PVLDB 13(7), 2020; see README.md): the engine.
//
// A Put: PointWrites finds the leaf and locks it with PairWriter (pair_writer.h), which inserts by
// entry moving (leaf_writer.h): one 8-byte store of the leaf's header commits everything (NAW,
// LB+-Tree Definition 2.1). A full leaf splits without a log (leaf_splitter.h). A delete clears a
// bit, or unlinks its leaf (pair_remover.h). Several operations share fences (write_group.h).
// Atomic batches write an intent first. Readers: lookups.h, scan.cc.
//
// INVARIANT: what is acknowledged is durable, and what a reader sees is durable too, or is returned
// only after the fence that makes it so (leaf_locks.h).
//
// Thread-safe. Locks are in DRAM, striped: a writer holds its leaf's lock across its fences.
// Parents are locked after leaves; a second leaf is only tried.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/engine_info.h"
#include "index/lbtree/lookups.h"
#include "index/lbtree/pair_writer.h"
#include "index/lbtree/tree_state.h"

namespace lodgekv::lbtree {

template <class C>
class LbTree final : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineContext& context);
  static absl::StatusOr<std::unique_ptr<Engine>> Recover(const EngineContext& context,
                                                         RecoveryReport* report);
  static absl::StatusOr<std::unique_ptr<Engine>> BulkLoad(const EngineContext& context,
                                                          const lodgekv::BulkLoad& load);
  ~LbTree() override;

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
  LbTree(const EngineContext& context, unsigned blocks);

  TreeState<C> tree_;
  const Lookups<C> lookups_;
  PairWriter<C> pair_writer_;
};

}  // namespace lodgekv::lbtree
