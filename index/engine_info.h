// One entry per engine: its name, its options, and how to create and recover it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/options.h"
#include "index/recovery_state.h"

namespace lodgekv {

namespace pmem {
class Pool;
}

// `done` of `total` steps of the current phase; called now and then, by one thread at a time.
using RecoveryProgress = std::function<void(std::string_view phase, uint64_t done, uint64_t total)>;

struct EngineContext {
  pmem::Pool* pool = nullptr;  // null for a volatile engine; must outlive the engine
  KeyFormat key_format = KeyFormat::kBytes;
  bool inline_pairs = false;  // `bytes` only: short pairs are held in the slot
  OptionValues options;
  unsigned recovery_threads = 1;
  RecoveryProgress progress;  // may be empty; called until `create` or `recover` returns
  // May be empty. Called once, by a thread of the engine, when a part of recovery that was left to
  // the background has ended, well or with an error; not called for an engine that left nothing,
  // or that was abandoned. Must not call the engine, which may already be in Close.
  RecoveryEnd on_recovery_end;
};

// A pair of a bulk load. The views are valid until the source is asked for the next pair.
struct BulkPair {
  std::string_view key;
  std::string_view value;
  uint64_t expiry_unix_ms = 0;  // 0: never
};

// Sets the next pair: keys ascend as byte strings, without duplicates. Returns false at the end. An
// error status ends the load with that error.
using BulkSource = std::function<absl::StatusOr<bool>(BulkPair* pair)>;

inline constexpr unsigned kLeastFillPercent = 10;

struct BulkLoad {
  BulkSource source;
  unsigned fill_percent = 70;  // of the slots of each leaf: kLeastFillPercent to 100
};

struct EngineInfo {
  std::string_view name;     // as in --engine, metrics and the pool header
  std::string_view summary;  // one line
  std::string_view paper;    // title and venue; empty for null and dram
  uint32_t media_version = 0;
  bool persistent = true;  // false: needs no pool and loses everything at exit
  bool discards = false;   // true: stores nothing (the floor of every benchmark)
  // Its recovery verifies the contents of a pool that was closed cleanly, as pmem/pool_contents.h
  // says. Else Open does.
  bool verifies_at_use = false;
  std::span<const EngineOption> options;
  // Creates the engine on a pool whose engine area is all zero.
  absl::StatusOr<std::unique_ptr<Engine>> (*create)(const EngineContext&) = nullptr;
  // Opens a pool that this engine created, after a clean close or a crash at any moment. May leave
  // a part of recovery to the background: see Engine::GetRecoveryState.
  absl::StatusOr<std::unique_ptr<Engine>> (*recover)(const EngineContext&,
                                                     RecoveryReport*) = nullptr;
  // Creates the engine with the pairs of a source, each leaf written once. All are durable on
  // return, but until Pool::MarkEngineCreated a crash leaves a pool without an engine. After an
  // error nothing is left in the pool. InvalidArgument: names the pair by its position (fill,
  // length, order). ResourceExhausted: the pool is full. Null: the engine has no bulk load.
  absl::StatusOr<std::unique_ptr<Engine>> (*bulk_load)(const EngineContext&,
                                                       const BulkLoad&) = nullptr;
};

}  // namespace lodgekv
