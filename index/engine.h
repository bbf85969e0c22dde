// The contract that every index engine obeys. The server, the tests and the benchmarks see an
// engine only through this header and index/registry.h.
//
// DURABILITY   When Write reports Outcome::kOk for an operation, its effect survives any later
//              crash of the process, and of the machine if the medium survives that (index/store.h
//              reports the medium's class).
// ATOMICITY    After a crash a key has its old or its new value, never a mixture, never neither.
//              With WriteOptions::atomic the whole span takes effect, or none of it.
// LINEARIZABLE Each key is linearizable, also across crashes: nothing that a Read or a Scan has
//              returned is lost by a later crash.
// THREADS      Every method is thread-safe except Close; Abandon says with whom it may run. Readers
//              never block readers, and a reader never stores to the medium. It may flush what a
//              killed process stored, as long as GetRecoveryState is not finished.
// TIME         The caller passes the current time; engines never read a clock.
// ERRORS       An operation that reports anything but kOk has not been applied. Engines return
//              codes (Outcome); callers turn them into messages.
// MEMORY       Keys and values are byte strings. Views in arguments are read during the call only;
//              views in a ScanItem are valid during the visitor's call only.
//
// The base class has only pure virtual methods (except CheckInPassing, GetRecoveryState and
// Abandon), no data members and no helpers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "index/recovery_state.h"

namespace lodgekv {

// The format of the keys and values in a pool; chosen when the pool is created.
enum class KeyFormat : uint8_t {
  kBytes = 1,    // byte strings: key 1..65,535 bytes, value 0..16 MiB; versions and expiry
  kFixed64 = 2,  // key and value of exactly 8 bytes; no versions, no expiry
};

// The outcome of one operation.
enum class Outcome : uint8_t {
  kOk = 0,
  kConditionFailed,  // the op's condition did not hold; WriteResult holds the key's state
  kAborted,          // atomic group: not applied because another op of the group failed
  kInvalidArgument,  // a key or value length, or a feature, that the key format does not support
  kPoolFull,         // no space left on the medium; reads, scans and deletes still work
  kDataLoss,         // the medium holds a damaged record for this key
  kMediumFailed,     // a sync failed: nothing is acknowledged any more
};

enum class WriteKind : uint8_t { kPut, kDelete };

enum class Condition : uint8_t {
  kNone,
  kIfAbsent,   // the key has no live value
  kIfPresent,  // the key has a live value
  kIfVersion,  // the key's live value has version WriteOp::if_version (not 0)
};

struct WriteOp {
  WriteKind kind = WriteKind::kPut;
  Condition condition = Condition::kNone;
  std::string_view key = {};
  std::string_view value = {};  // ignored by a delete
  uint64_t if_version = 0;      // with Condition::kIfVersion
  uint64_t expiry_unix_ms = 0;  // absolute, milliseconds since the epoch; 0: never
};

struct WriteResult {
  Outcome outcome = Outcome::kOk;
  // Deletes and conditional operations: whether there was a live value before the operation.
  bool found = false;
  // Put applied: version of the new value. Condition failed: version of the live value. Otherwise
  // 0. Always 0 where the key format has no versions.
  uint64_t version = 0;
};

struct WriteOptions {
  // False: the operations share fences (group commit), each with an outcome of its own. True: all
  // or nothing, also across a crash. A key may then appear only once (kInvalidArgument).
  bool atomic = false;
  // Now, milliseconds since the epoch: a value that expires at or before it counts as absent.
  uint64_t now_unix_ms = 0;
  // With atomic: stored in the same crash-atomic step; Engine::AppliedIndex() returns it.
  std::optional<uint64_t> applied_index = {};
};

struct ReadOptions {
  uint64_t now_unix_ms = 0;
  // A longer value is left out, so that a caller may read it where it has the time. At least 8.
  uint64_t most_value_bytes = UINT64_MAX;
};

struct ReadResult {
  Outcome outcome = Outcome::kOk;  // kOk, kInvalidArgument or kDataLoss
  bool found = false;              // a missing key is a normal answer
  bool left_out = false;           // found, but the value is longer than most_value_bytes
  uint64_t version = 0;
  uint64_t expiry_unix_ms = 0;
  // Assigned when found and not left out; its capacity is reused from call to call.
  std::string value;
};

struct ScanOptions {
  std::string_view start = {};               // inclusive; empty: from the first key
  std::optional<std::string_view> end = {};  // exclusive; absent: to the last key
  bool reverse = false;                      // descending over the same [start, end)
  bool keys_only = false;                    // ScanItem::value stays empty
  uint64_t limit = 0;                        // at most this many items; 0: no limit
  uint64_t now_unix_ms = 0;
};

struct ScanItem {
  std::string_view key;
  std::string_view value;
  uint64_t version = 0;
  uint64_t expiry_unix_ms = 0;
};

// Returns false to end the scan. Called without a lock and outside any epoch: it may block.
using ScanVisitor = absl::FunctionRef<bool(const ScanItem&)>;

// The result of Check. No problems: the structure is sound.
struct CheckReport {
  uint64_t keys = 0;
  uint64_t leaves = 0;
  uint64_t bytes_reachable = 0;       // on the medium, from the engine's roots
  std::vector<std::string> problems;  // each names the place; at most 100 are kept
  uint64_t problem_count = 0;
};

using CheckPause = absl::FunctionRef<bool()>;

struct MemoryUse {
  uint64_t medium_bytes = 0;  // nodes, records and logs in use, and their headers
  uint64_t dram_bytes = 0;    // volatile nodes and side arrays
};

enum class CounterKind : uint8_t { kCounter, kGauge };

struct CounterSample {
  std::string_view name;  // snake_case, without prefix; counters end in _total
  std::string_view help;
  CounterKind kind = CounterKind::kCounter;
  double value = 0;
};

using CounterVisitor = absl::FunctionRef<void(const CounterSample&)>;

class Engine {
 public:
  virtual ~Engine() = default;

  // Applies ops[i] and sets results[i]; the spans have equal length. For group commit or atomic see
  // WriteOptions. Two ops of a non-atomic group on the same key take effect in span order. Durable
  // on return. Returns kOk if every result is kOk, otherwise the first other outcome.
  [[nodiscard]] virtual Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                      const WriteOptions& options) = 0;

  // Looks up keys[i] into results[i]; the spans have equal length. Each key is read at some moment
  // of the call, not all at the same one. Returns kOk if every result is kOk, otherwise the first
  // other outcome.
  [[nodiscard]] virtual Outcome Read(std::span<const std::string_view> keys,
                                     std::span<ReadResult> results, const ReadOptions& options) = 0;

  // Visits the live keys of [start, end) in order: each key that exists throughout the call exactly
  // once; a key put or deleted meanwhile may or may not be visited; each value was current at some
  // moment of the call. Not a snapshot. kDataLoss: the scan stopped at a damaged record.
  [[nodiscard]] virtual Outcome Scan(const ScanOptions& options, ScanVisitor visitor) = 0;

  // Counts the live keys (including expired ones) by walking the structure: milliseconds per
  // million keys. Exact if no write runs meanwhile.
  [[nodiscard]] virtual uint64_t CountKeys() = 0;

  // Reads the whole structure and reports its problems; changes nothing. Writers wait.
  [[nodiscard]] virtual CheckReport Check() = 0;

  // The same while others write: the structure is checked piece by piece from the left, and writers
  // wait for one piece at most. Invariants that hold only for all pieces at one moment are not
  // checked, and a key that moves meanwhile may be counted twice or not at all. `go_on` is called
  // between pieces with nothing locked; if it returns false the check ends. An engine whose Check
  // is quick may just call Check.
  [[nodiscard]] virtual CheckReport CheckInPassing(CheckPause go_on) {
    (void)go_on;
    return Check();
  }

  // The largest applied index stored; 0 if none was.
  [[nodiscard]] virtual uint64_t AppliedIndex() const = 0;

  // The engine's own counters and gauges, for metrics and benchmarks.
  virtual void VisitCounters(CounterVisitor visitor) const = 0;

  [[nodiscard]] virtual MemoryUse GetMemoryUse() const = 0;

  // The state of the part of recovery that `recover` left to the background. Until it is finished
  // every call is served under the whole contract, also if another crash comes before the end;
  // a call may take longer, and space that nobody owns may still count as used. Once finished, it
  // stays finished. The default is for engines that leave nothing.
  [[nodiscard]] virtual RecoveryState GetRecoveryState() const { return {}; }

  // Prepares the pool for a quick recovery and releases the engine's resources. Not thread-safe;
  // nothing may be called afterwards. A crash instead of Close loses nothing. A recovery in the
  // background is finished first; if it met an error, Close returns it, and the pool is not marked
  // as closed cleanly.
  virtual absl::Status Close() = 0;

  // In place of Close when pages of the pool are gone, because a file of it was truncated. On
  // return no thread of the engine is running and none will start: only a call can still touch the
  // pool. Itself touches nothing of it, but waits for the step that such a thread is making. Leaves
  // on the medium what a crash would; an unfinished recovery stays so, and on_recovery_end may
  // never be called.
  //
  // Calls may be running, but neither Close, nor another Abandon, nor a function that the engine
  // has called. Close must not follow. A second Abandon does nothing. The default is for engines
  // that start no thread.
  virtual void Abandon() {}
};

}  // namespace lodgekv
