// A pool and the engine on it: what a daemon opens and closes. Layers above reach the medium only
// through this class.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/engine_info.h"
#include "index/journal_use.h"

namespace lodgekv {

struct StoreOptions {
  std::string engine = "lodgetree";
  // A file, a poolset file or /dev/daxX.Y. Empty only for a volatile engine.
  std::string pool_path;
  // Size in bytes of a new pool. 0: 1 GiB for a file, all of a device or poolset (no other value is
  // allowed there).
  uint64_t pool_size_bytes = 0;
  // Refuses a pool that is missing or an empty file, instead of creating it.
  bool pool_must_exist = false;
  // If not empty: a file that records the id of the pool at its first opening
  // (pool_identity_file.h). Once it exists, another pool, or none, is refused.
  std::string pool_identity_file;
  KeyFormat key_format = KeyFormat::kBytes;
  bool inline_pairs = false;
  // "medium": what is acknowledged is on the medium. "process": survives a killed process, not a
  // power cut; nothing is synced.
  bool process_durability = false;
  bool allow_volatile_medium = false;
  // For a pool on an ordinary file: the path of its journal (empty: POOL_PATH.journal), the
  // journal's size (0: an eighth of the pool, 1 to 128 MiB), and the minimum rate in bytes per
  // second at which a checkpoint writes back (0: 16 MiB). May change each time the pool is opened.
  std::string journal_path;
  uint64_t journal_size_bytes = 0;
  uint64_t checkpoint_bytes_per_second = 0;
  // Engine options by name; see EngineInfo::options.
  std::map<std::string, std::string> engine_options;
  unsigned recovery_threads = 0;  // 0: one per core; also for the checksums of a closed pool
  RecoveryProgress progress;
  RecoveryEnd on_recovery_end;  // see EngineContext
  // Creates the pool with these pairs: all of them, or none and no pool. AlreadyExists if there is
  // already a pool with data. Unimplemented if the engine has no bulk load; lists those that have
  // one.
  std::optional<BulkLoad> bulk_load;
  // Called once, by the thread that noticed it, when a sync fails. Must end the process.
  std::function<void(const std::string& what)> on_medium_failure;
  // True: damage in libpmemobj's own part of the pool ends the process with one line on stderr and
  // exit code 65. False: the effect depends on libpmemobj.
  bool end_at_damaged_metadata = false;
  // If set, the pool's files are watched while the store is open. Called once, by a separate thread
  // or by Close, when one is deleted, replaced or truncated. From then on nothing may be
  // acknowledged: the next start will not find it. After a truncation the engine is then abandoned
  // (Engine::Abandon).
  std::function<void(const std::string& what)> on_pool_gone;
};

// What Status, log, metrics and health report about the medium.
struct StoreInfo {
  std::string engine;
  KeyFormat key_format = KeyFormat::kBytes;
  std::string pool_path;
  std::string pool_id;  // 16 bytes in hex
  uint64_t pool_bytes = 0;
  // pmem-adr, pmem-eadr, pmem-forced, cxl, file or volatile; "none" without a pool.
  std::string medium_class;
  bool long_fences = false;       // a fence may wait for a disk
  std::string durability;         // "medium", "process" or "none"
  std::string durability_detail;  // one sentence: what an acknowledged write survives
  uint32_t media_version = 0;
  bool created = false;              // this open created the pool
  bool replaced_empty_file = false;  // in place of an empty file
  bool inline_pairs = false;
  RecoveryReport recovery;  // of the part before the opening; see Engine::GetRecoveryState
  // Empty without a journal. The counts tell what this open replayed before the engine's recovery.
  std::string journal_path;
  uint64_t journal_groups_replayed = 0;
  uint64_t journal_lines_replayed = 0;
  uint64_t journal_replay_ms = 0;  // including the sync of the pool
  // This open has flushed all of the pool: an earlier process had durability `process`, or ended by
  // a failed sync.
  bool flushed_at_open = false;
  uint64_t flush_at_open_ms = 0;
};

// Space of the pool in bytes. total = used + free + reserved.
struct SpaceUse {
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t free_bytes = 0;      // for any write
  uint64_t reserved_bytes = 0;  // kept free so that deletes and flushes work in a full pool
};

class Store {
 public:
  // Creates the pool if there is none, otherwise opens it and recovers. Never overwrites anything
  // but an empty file or device. Errors name the path, what was found and what would be right:
  // InvalidArgument (unknown engine or option, key format that the pool does not have, pool too
  // small), FailedPrecondition (pool of another engine or version, pool in use, volatile medium
  // without permission), DataLoss (damaged header or structure), PermissionDenied, NotFound,
  // ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options);
  // The same with an engine that need not be in the registry; `options.engine` is ignored.
  static absl::StatusOr<std::unique_ptr<Store>> OpenWith(const EngineInfo& engine,
                                                         const StoreOptions& options);

  // Closes like Close(); errors are lost.
  virtual ~Store() = default;

  virtual Engine& engine() = 0;
  virtual const StoreInfo& info() const = 0;
  virtual SpaceUse GetSpaceUse() const = 0;
  // For a pool on an ordinary file; otherwise nothing.
  virtual std::optional<JournalUse> GetJournalUse() const = 0;

  // Closes the engine and marks the pool clean. No other call may be running. A pool whose files
  // were moved or deleted meanwhile is still closed, in case somebody moved it, and DataLoss says
  // what was lost; a truncated pool is not touched any more.
  virtual absl::Status Close() = 0;
};

}  // namespace lodgekv
