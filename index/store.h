// A pool and the engine on it: what a daemon opens and closes. The only door through which layers
// above reach the medium.
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
  // Bytes, for a pool that is created. 0: 1 GiB for a file, all of a device or poolset, which take
  // no other.
  uint64_t pool_size_bytes = 0;
  // A pool that is not there, or is an empty file, is refused and not created.
  bool pool_must_exist = false;
  // Not empty: a file that gets the id of the pool at its first opening (pool_identity_file.h).
  // Where it is, another pool, or none, is refused.
  std::string pool_identity_file;
  KeyFormat key_format = KeyFormat::kBytes;
  bool inline_pairs = false;
  // "medium": what is acknowledged is on the medium. "process": survives a killed process, not a
  // power cut; no sync is made.
  bool process_durability = false;
  bool allow_volatile_medium = false;
  // Of a pool on an ordinary file: where its journal lies (empty: POOL_PATH.journal), its size (0:
  // an eighth of the pool, 1 to 128 MiB), and how many bytes a second a checkpoint writes back at
  // least (0: 16 MiB). A pool that is opened again may be given others.
  std::string journal_path;
  uint64_t journal_size_bytes = 0;
  uint64_t checkpoint_bytes_per_second = 0;
  // Engine options by name; see EngineInfo::options.
  std::map<std::string, std::string> engine_options;
  unsigned recovery_threads = 0;  // 0: one per core; the checksums of a closed pool likewise
  RecoveryProgress progress;
  // The pool is created with these pairs: all of them, or none and no pool. Where there is a pool
  // with data already: AlreadyExists. An engine that cannot: Unimplemented, naming those that can.
  std::optional<BulkLoad> bulk_load;
  // Called once, from the thread that saw it, when a sync fails. Must end the process.
  std::function<void(const std::string& what)> on_medium_failure;
  // Damage in libpmemobj's own part of the pool stops the process in a defined way, by one line
  // on stderr and the exit code 65; else by whatever it makes of libpmemobj.
  bool end_at_damaged_metadata = false;
  // Set: the pool's files are watched over while the store is open, and this is called once, from a
  // thread of its own or from Close, when one is deleted, replaced or cut short. Nothing may be
  // acknowledged from then on: the next start will not find it.
  std::function<void(const std::string& what)> on_pool_gone;
};

// What an operator is told about the medium, in Status, log, metrics and health.
struct StoreInfo {
  std::string engine;
  KeyFormat key_format = KeyFormat::kBytes;
  std::string pool_path;
  std::string pool_id;  // 16 bytes in hex
  uint64_t pool_bytes = 0;
  // pmem-adr, pmem-eadr, pmem-forced, cxl, file or volatile; none without a pool.
  std::string medium_class;
  std::string durability;         // "medium", "process" or "none"
  std::string durability_detail;  // one sentence: what an acknowledged write survives
  uint32_t media_version = 0;
  bool created = false;              // this open created the pool
  bool replaced_empty_file = false;  // and did so where an empty file was
  bool inline_pairs = false;
  RecoveryReport recovery;
  // Empty without a journal. What this open replayed from it, before the engine recovered.
  std::string journal_path;
  uint64_t journal_groups_replayed = 0;
  uint64_t journal_lines_replayed = 0;
  uint64_t journal_replay_ms = 0;  // with the sync of the pool
};

// Space of the pool in bytes. total = used + free + reserved.
struct SpaceUse {
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t free_bytes = 0;      // for any write
  uint64_t reserved_bytes = 0;  // kept so that deletes and flushes work in a full pool
};

class Store {
 public:
  // Creates the pool where there is none, else opens it and recovers. Never writes over anything
  // that is not an empty file or device. Errors name the path, what was found and what would be
  // right: InvalidArgument (unknown engine or option, key format that the pool does not have, pool
  // too small), FailedPrecondition (another engine's or version's pool, a pool in use, a volatile
  // medium without leave), DataLoss (damaged header or structure), PermissionDenied, NotFound,
  // ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options);
  // The same with an engine that need not be in the registry; `options.engine` is not looked at.
  static absl::StatusOr<std::unique_ptr<Store>> OpenWith(const EngineInfo& engine,
                                                         const StoreOptions& options);

  // Closes as Close() does; errors are lost.
  virtual ~Store() = default;

  virtual Engine& engine() = 0;
  virtual const StoreInfo& info() const = 0;
  virtual SpaceUse GetSpaceUse() const = 0;
  // Of a pool on an ordinary file; else nothing.
  virtual std::optional<JournalUse> GetJournalUse() const = 0;

  // Closes the engine and marks the pool clean. Call when no other call runs. A pool whose files
  // were lost meanwhile is closed all the same, for whoever moved it, and DataLoss says what was
  // lost; one that was cut short is not touched any more.
  virtual absl::Status Close() = 0;
};

}  // namespace lodgekv
