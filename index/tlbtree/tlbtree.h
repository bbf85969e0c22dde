// TLBtree (ICDE 2021; see README.md): the engine.
//
// A Put: PointWrites finds the leaf through the two layers (descent.h) and locks it with PairWriter
// (pair_writer.h), which inserts into a free slot (leaf_writer.h): one 8-byte store of the leaf's
// state word commits everything. A full leaf splits without a log (leaf_splitter.h), its entry
// above is made with it or afterwards (sub_indices.h), and the top layer is built anew in the
// background now and then (top_rebuild.h). Several operations share fences (write_group.h). Atomic
// batches write an intent first. Readers: lookups.h, scan.cc.
//
// All of it lies on the medium. After a crash nothing is read before the first answer but what that
// needs (first_touch.h); a sweep in the background finds the free space (sweep.h).
//
// INVARIANT: what is acknowledged is durable, and what a reader sees is durable too, or is returned
// only after the fence that makes it so (node_locks.h).
//
// Thread-safe. Locks are in DRAM, striped: a writer holds its leaf's lock across its fences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/engine_info.h"
#include "index/tlbtree/lookups.h"
#include "index/tlbtree/pair_writer.h"
#include "index/tlbtree/tree_state.h"

namespace lodgekv::tlbtree {

template <class C>
class TlbTree final : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineContext& context);
  static absl::StatusOr<std::unique_ptr<Engine>> Recover(const EngineContext& context,
                                                         RecoveryReport* report);
  static absl::StatusOr<std::unique_ptr<Engine>> BulkLoad(const EngineContext& context,
                                                          const lodgekv::BulkLoad& load);
  ~TlbTree() override;

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
  explicit TlbTree(const EngineContext& context);

  TreeState<C> tree_;
  const Lookups<C> lookups_;
  PairWriter<C> pair_writer_;
};

}  // namespace lodgekv::tlbtree
