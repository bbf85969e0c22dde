// SPTree (see README.md): the engine. Unfinished: without write buffers and their log.
//
// A Put: PointWrites finds the Mnode of the key's leaf by the top layer (top_layer.h), and locks it
// with PairWriter (pair_writer.h), which writes the pair to a free slot and commits it by one store
// of the leaf's bitmap (leaf_writer.h). A full leaf splits (leaf_split.h), and sparse neighbours
// are merged after deletes (leaf_merge.h). Several operations share fences (write_group.h). Atomic
// batches write an intent first. Readers: lookups.h, scan.cc.
//
// INVARIANT: what is acknowledged is durable, and what a reader sees is durable too, or is returned
// only after the fence that makes it so (node/leaf_commit.h).
//
// Thread-safe. Locks are in DRAM, in each leaf's Mnode: a writer holds its leaf's lock across its
// fences. Nodes of the top layer are locked after leaves; a second leaf is only tried.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/engine_info.h"
#include "index/sptree/lookups.h"
#include "index/sptree/pair_writer.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class SpTree final : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineContext& context);
  static absl::StatusOr<std::unique_ptr<Engine>> Recover(const EngineContext& context,
                                                         RecoveryReport* report);
  static absl::StatusOr<std::unique_ptr<Engine>> BulkLoad(const EngineContext& context,
                                                          const lodgekv::BulkLoad& load);
  ~SpTree() override;

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
  explicit SpTree(const EngineContext& context);

  TreeState<C> tree_;
  const Lookups<C> lookups_;
  PairWriter<C> pair_writer_;
};

}  // namespace lodgekv::sptree
