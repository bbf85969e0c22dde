// A subject of operations: an engine, or a baseline.
#pragma once

#include <string>

#include "bench/engine_bench/op_batch.h"
#include "bench/engine_bench/run_batch.h"
#include "index/engine.h"

namespace lodgekv::bench {

struct TargetId {
  std::string engine;
  std::string engine_options;  // the options given, "a=1:b=2:inline_pairs"
  std::string key_format;
  std::string key_shape;  // "integer" where the format has only one
};

class Target {
 public:
  virtual ~Target() = default;

  virtual const TargetId& id() const = 0;
  // Keys in this target's format.
  virtual const KeyWriter& key_writer() const = 0;
  // Size of each value, except for fixed64.
  virtual uint32_t value_bytes() const = 0;
  // Stores nothing, so that answers cannot be checked.
  virtual bool discards() const = 0;
  virtual MemoryUse GetMemoryUse() const = 0;
  // Counters besides the cost; a baseline has none.
  virtual void VisitCounters(CounterVisitor) const {}

  // Runs one thread's share of a chunk; thread-safe if the target is. `probe` is null in a
  // throughput pass.
  virtual Tally Run(const OpBatch& batch, LatencyProbe* probe) = 0;
};

}  // namespace lodgekv::bench
