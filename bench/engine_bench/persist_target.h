// The second baseline: one 8-byte store, written back and fenced, through the persist seam, to a
// line of a small mapped file. What a machine's clwb and sfence cost, whatever the pool's medium
// is.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/engine_bench/target.h"
#include "index/pmem/medium.h"

namespace lodgekv::bench {

class PersistTarget final : public Target {
 public:
  // Maps a nameless file in `directory`.
  static absl::StatusOr<std::unique_ptr<PersistTarget>> Create(const std::string& directory);
  ~PersistTarget() override;

  const TargetId& id() const override { return id_; }
  const KeyWriter& key_writer() const override { return key_writer_; }
  uint32_t value_bytes() const override { return 8; }
  bool discards() const override { return true; }
  MemoryUse GetMemoryUse() const override { return {}; }
  // Each operation dirties the next line and persists it; the batch tells only how many.
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
