// Pools over libpmemobj: create, open, exists.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/file_blocks.h"
#include "index/pmem/internal/medium_class.h"
#include "index/pmem/internal/metadata_guard.h"
#include "index/pmem/internal/pmemobj_source.h"
#include "index/pmem/internal/pool_mapping.h"
#include "index/pmem/internal/pool_state.h"
#include "index/pmem/pool.h"
#include "index/pmem/pool_path.h"
#include "index/pmem/pool_watch.h"

namespace lodgekv::pmem {
namespace {

absl::Status Named(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("pool ", path, ": ", status.message()));
}

absl::Status CheckFileToOpen(const PoolPath& pool) {
  if (pool.kind == PoolPath::Kind::kMissing) {
    return absl::NotFoundError(absl::StrCat("there is no pool at ", pool.path));
  }
  if (pool.kind != PoolPath::Kind::kFile) return absl::OkStatus();
  const uint64_t bytes = pool.parts[0].bytes;
  if (bytes >= PmemobjSource::MinPoolBytes()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("pool ", pool.path, " is truncated or not a LodgeKV pool: it has ", bytes,
                   " bytes, a pool has at least ", PmemobjSource::MinPoolBytes()));
}

// For each file of a pool that is opened.
absl::Status CheckBlocks(const PoolPath& pool) {
  for (const PoolPath::Part& part : pool.parts) {
    if (part.kind != PoolPath::Kind::kFile) continue;
    const std::string name = part.path == pool.path ? "it" : part.path;
    if (absl::Status s = FillHoles(part.path, name); !s.ok()) return Named(pool.path, s);
  }
  return absl::OkStatus();
}

// 0 for media with a fixed size.
uint64_t FileBytes(const PoolPath& pool, const PoolOptions& options) {
  if (pool.kind != PoolPath::Kind::kMissing && pool.kind != PoolPath::Kind::kFile) return 0;
  return options.size_bytes != 0 ? options.size_bytes : kDefaultPoolFileBytes;
}

absl::Status CheckToCreate(const PoolPath& pool, const PoolOptions& options) {
  absl::StatusOr<bool> occupied = pool.Occupied();
  if (!occupied.ok()) return occupied.status();
  if (*occupied) {
    return absl::AlreadyExistsError(absl::StrCat(
        "pool ", pool.path, " cannot be created: it exists already; open it, or remove it"));
  }
  const uint64_t file_bytes = FileBytes(pool, options);
  if (file_bytes == 0 && options.size_bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("pool ", pool.path,
                     " is a device or poolset, whose size is its own; the size "
                     "given is ",
                     options.size_bytes, ", it must be 0"));
  }
  absl::StatusOr<PoolGeometry> geometry =
      PmemobjSource::Cut(file_bytes != 0 ? file_bytes : pool.bytes());
  return geometry.ok() ? absl::OkStatus() : Named(pool.path, geometry.status());
}

// Pool and journal may fail at the same time, each in a thread of its own: report once.
PoolOptions ToldOnce(const PoolOptions& options) {
  PoolOptions once = options;
  if (!options.on_medium_failure) return once;
  once.on_medium_failure = [told = std::make_shared<std::atomic_flag>(),
                            handler = options.on_medium_failure](const std::string& what) {
    if (!told->test_and_set()) handler(what);
  };
  return once;
}

// More do not help: the memory bandwidth is used up.
constexpr unsigned kMostThreads = 16;

unsigned ThreadsFor(const PoolOptions& options) {
  const unsigned wanted =
      options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
  return std::clamp(wanted, 1U, kMostThreads);
}

// The pool must have its recorded size: a shorter one is truncated, a longer one is unknown to
// libpmemobj's heap.
absl::Status CheckSize(const PoolGeometry& recorded, uint64_t bytes) {
  if (bytes == recorded.pool_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("it has ", bytes, " bytes, it was created with ",
                                          recorded.pool_bytes, ": it was ",
                                          bytes < recorded.pool_bytes ? "truncated" : "extended"));
}

}  // namespace

absl::Status Pool::Attach(const PoolOptions& options, std::unique_ptr<PoolMapping> mapping) {
  const PoolPath& path = mapping->path();
  base_ = mapping->base();
  threads_ = ThreadsFor(options);
  contents_.at_use_ = options.verify_at_use;
  contents_.name_ = absl::StrCat("pool ", options.path, ": ");
  medium_class_ = MediumClassOf(SeeMedium(path, base_, path.bytes()));
  if (absl::Status s = CheckMediumAllowed(options, medium_class_); !s.ok()) return s;
  stores_unflushed_ = options.process_durability && medium_class_ != MediumClass::kVolatile;
  durability_detail_ = DurabilityDetail(medium_class_, options.process_durability);
  std::unique_ptr<FileSync> file_sync;
  if (medium_class_ == MediumClass::kFile) {
    absl::StatusOr<std::unique_ptr<FileSync>> made = MakeFileSync(options, path, base_);
    if (!made.ok()) return made.status();
    file_sync = *std::move(made);
  }
  medium_ = MakeMedium(options, medium_class_, file_sync.get());
  state_ = std::make_unique<State>(*medium_, reinterpret_cast<media::Header*>(mapping->header()));
  state_->file_sync = std::move(file_sync);
  state_->direct_fence = state_->file_sync.get();
  state_->files = state_->file_sync.get();
  if (state_->files != nullptr) state_->header.MarkUnflushedWith(*state_->files);
  state_->mapping = std::move(mapping);
  return absl::OkStatus();
}

// A fence is a sync of files.
bool Pool::NeedsJournal() const { return medium_->mode() == FlushMode::kFile; }

// The header's identity is loaded.
absl::Status Pool::AttachJournal(const PoolOptions& options) {
  const uint64_t pool_bytes = state_->header.geometry().pool_bytes;
  absl::StatusOr<uint64_t> bytes = JournalBytes(options.journal_bytes, pool_bytes);
  if (!bytes.ok()) return bytes.status();
  PoolJournal::Options journal;
  journal.header = &state_->header;
  journal.medium = medium_.get();
  journal.base = base_;
  journal.pool_bytes = pool_bytes;
  journal.foreign = PmemobjSource::WordsOfLibpmemobj(OffsetOf(state_->header.rows().data()),
                                                     state_->header.rows().size());
  journal.bytes = *bytes;
  journal.checkpoint_bytes_per_second = options.checkpoint_bytes_per_second != 0
                                            ? options.checkpoint_bytes_per_second
                                            : kDefaultCheckpointBytesPerSecond;
  journal.on_failure = options.on_medium_failure;
  journal.pool = state_->files;
  const std::string path =
      options.journal_path.empty() ? options.path + ".journal" : options.journal_path;
  if (NeedsJournal() && !options.allow_volatile_medium && OnMemoryFileSystem(path)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its journal ", path,
        " would be on a memory file system: acknowledged writes would be lost when the machine "
        "stops; name a journal_path on a disk"));
  }
  state_->journal =
      std::make_unique<PoolJournal>(journal, std::make_unique<JournalFilePlace>(path));
  return absl::OkStatus();
}

absl::Status Pool::Format(const PoolOptions& options, const PoolIdentity& identity,
                          const PoolGeometry& geometry) {
  state_->source =
      std::make_unique<PmemobjSource>(state_->mapping->pop(), *medium_, geometry, options.path);
  state_->header.Prepare(identity, geometry);
  state_->header.Finish();
  if (absl::Status status = Adopt(); !status.ok()) return status;
  if (absl::Status status = AttachJournal(options); !status.ok()) return status;
  if (NeedsJournal()) {
    if (absl::Status status = state_->journal->Prepare(); !status.ok()) return status;
  }
  StartNumbers();
  if (!state_->table->Stock(*state_->source, state_->table->reserve_rows() + 1)) {
    return absl::InvalidArgumentError("it is too small for a single chunk");
  }
  if (medium_->failed()) return absl::DataLossError("a sync of it failed");
  return state_->mapping->Publish();
}

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(const PoolOptions& given,
                                                   const PoolIdentity& identity) {
  const PoolOptions options = ToldOnce(given);
  if (options.guard_metadata) GuardMetadata();
  absl::StatusOr<PoolPath> path = PoolPath::Inspect(options.path);
  if (!path.ok()) return path.status();
  if (absl::Status status = CheckToCreate(*path, options); !status.ok()) return status;
  PoolIdentity complete = identity;
  if (absl::Status status = CompleteIdentity(complete); !status.ok()) return status;

  absl::StatusOr<std::unique_ptr<PoolMapping>> mapping =
      PoolMapping::Create(*path, FileBytes(*path, options));
  if (!mapping.ok()) return mapping.status();
  absl::StatusOr<PoolGeometry> geometry = PmemobjSource::Cut((*mapping)->path().bytes());
  if (!geometry.ok()) return Named(options.path, geometry.status());
  absl::Status status = (*mapping)->TakeRoot(PmemobjSource::RootBytes(*geometry));
  if (!status.ok()) return Named(options.path, status);
  auto pool = std::unique_ptr<Pool>(new Pool);
  status = pool->Attach(options, *std::move(mapping));
  if (!status.ok()) return status;
  status = pool->Format(options, complete, *geometry);
  if (!status.ok()) return Named(options.path, status);
  if (pool->NeedsJournal()) {
    status = pool->state_->journal->Begin();
    if (!status.ok()) {
      pool->CloseAndRemove().IgnoreError();
      return Named(options.path, status);
    }
  }
  return pool;
}

absl::Status Pool::LoadFile(const PoolOptions& options, uint64_t header_bytes, uint64_t bytes,
                            const Accept& accept) {
  PoolHeader& header = state_->header;
  const auto named = [&](const absl::Status& status) { return Named(options.path, status); };
  absl::Status status = header.LoadIdentity(header_bytes);
  if (status.ok()) status = CheckSize(header.geometry(), bytes);
  if (!status.ok()) return named(status);
  if (accept) {
    if (status = accept(header.identity()); !status.ok()) return status;
  }
  status = AttachJournal(options);
  if (status.ok()) status = state_->journal->Recover();
  if (status.ok()) status = header.LoadState();
  if (!status.ok()) return named(status);
  state_->source = std::make_unique<PmemobjSource>(state_->mapping->pop(), *medium_,
                                                   header.geometry(), options.path);
  status = Adopt();
  if (status.ok() && NeedsJournal()) status = state_->journal->Begin();
  return status.ok() ? status : named(status);
}

absl::StatusOr<std::unique_ptr<Pool>> Pool::Open(const PoolOptions& given, const Accept& accept) {
  const PoolOptions options = ToldOnce(given);
  if (options.guard_metadata) GuardMetadata();
  absl::StatusOr<PoolPath> path = PoolPath::Inspect(options.path);
  if (!path.ok()) return path.status();
  if (absl::Status status = CheckFileToOpen(*path); !status.ok()) return status;
  if (absl::Status status = CheckBlocks(*path); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<PoolMapping>> mapping = PoolMapping::Open(*path);
  if (!mapping.ok()) return mapping.status();
  absl::Status status = (*mapping)->TakeRoot(0);
  if (!status.ok()) return Named(options.path, status);
  const uint64_t header_bytes = (*mapping)->header_bytes();

  auto pool = std::unique_ptr<Pool>(new Pool);
  status = pool->Attach(options, *std::move(mapping));
  if (!status.ok()) return status;
  status = pool->LoadFile(options, header_bytes, path->bytes(), accept);
  if (!status.ok()) return status;
  pool->StartNumbers();
  return pool;
}

absl::StatusOr<std::unique_ptr<PoolWatch>> Pool::Watch(
    std::function<void(const PoolLoss&)> on_loss) const {
  return PoolWatch::Start(state_->mapping->path(), journal_path(), std::move(on_loss));
}

absl::StatusOr<bool> Pool::Exists(const std::string& path) {
  absl::StatusOr<PoolPath> inspected = PoolPath::Inspect(path);
  if (!inspected.ok()) return inspected.status();
  return inspected->Occupied();
}

}  // namespace lodgekv::pmem
