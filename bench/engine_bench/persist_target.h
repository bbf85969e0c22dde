// The second baseline: one 8-byte store, written back and fenced through pmem::Medium, to a line of
// a small mapped file. It measures a machine's clwb and sfence, whatever the pool's medium.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/engine_bench/target.h"
#include "index/pmem/medium.h"

namespace lodgekv::bench {

class PersistTarget final : public Target {
 public:
  // Maps an unnamed file in `directory`.
  static absl::StatusOr<std::unique_ptr<PersistTarget>> Create(const std::string& directory);
  ~PersistTarget() override;

  const TargetId& id() const override { return id_; }
  const KeyWriter& key_writer() const override { return key_writer_; }
  uint32_t value_bytes() const override { return 8; }
  bool discards() const override { return true; }
  MemoryUse GetMemoryUse() const override { return {}; }
  // Each operation dirties the next line and persists it; only the batch's size matters.
  Tally Run(const OpBatch& batch, LatencyProbe* probe) override;

 private:
  explicit PersistTarget(void* area);

  const TargetId id_;
  const KeyWriter key_writer_;
  pmem::Medium medium_;
  void* const area_;
  size_t next_line_ = 0;
};

}  // namespace lodgekv::bench
