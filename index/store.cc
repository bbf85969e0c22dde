#include "index/store.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "index/key_format_name.h"
#include "index/pmem/pool.h"
#include "index/pmem/pool_path.h"
#include "index/pmem/pool_watch.h"
#include "index/pool_identity_file.h"
#include "index/registry.h"

namespace lodgekv {
namespace {

std::string Text(std::string_view text) { return std::string(text); }

std::string KeyFormatText(KeyFormat format) {
  const std::string_view name = KeyFormatName(format);
  if (name.empty()) return absl::StrCat("unknown (", static_cast<int>(format), ")");
  return Text(name);
}

std::string IdText(const pmem::PoolIdentity& identity) {
  const auto& id = identity.pool_id;
  return absl::BytesToHexString(std::string(reinterpret_cast<const char*>(id.data()), id.size()));
}

class StoreImpl : public Store {
 public:
  ~StoreImpl() override { Close().IgnoreError(); }

  Engine& engine() override { return *engine_; }
  const StoreInfo& info() const override { return info_; }
  SpaceUse GetSpaceUse() const override;
  std::optional<JournalUse> GetJournalUse() const override {
    return pool_ != nullptr ? pool_->journal_use() : std::nullopt;
  }
  absl::Status Close() override;

  absl::Status Open(const EngineInfo& engine, const StoreOptions& options);

 private:
  absl::Status OpenVolatile(const StoreOptions& options);
  absl::Status CreatePool(const StoreOptions& options);
  absl::Status OpenPool(const StoreOptions& options);
  absl::Status CheckIdentity(const pmem::PoolIdentity& there, const StoreOptions& options) const;
  absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const StoreOptions& options);
  absl::Status CreateEngine(const StoreOptions& options);
  absl::Status RecoverEngine();
  absl::Status ReadKnownId(const StoreOptions& options);
  absl::Status CheckPoolMayBeCreated(const StoreOptions& options) const;
  absl::Status CheckKnownId(const pmem::PoolIdentity& there, const StoreOptions& options) const;
  absl::Status RememberPool(const StoreOptions& options) const;
  absl::Status WatchPool(const StoreOptions& options);
  void OnCutShort();
  void KeepEngine(std::unique_ptr<Engine> engine);
  std::optional<pmem::PoolLoss> StopWatch();
  bool LeftCutShort();
  void Leave();
  void Describe(const StoreOptions& options);

  const EngineInfo* engine_info_ = nullptr;
  EngineContext context_;
  StoreInfo info_;
  std::optional<std::string> known_id_;  // of the pool that was served before, if recorded
  std::unique_ptr<pmem::Pool> pool_;     // none for a volatile engine; outlives the engine
  std::mutex loss_mutex_;                // held where engine_ is set, and by the watch's thread
  bool cut_short_ = false;               // under the mutex: the engine is abandoned
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<pmem::PoolWatch> watch_;  // if requested
};

absl::Status CheckOptions(const EngineInfo& engine, const StoreOptions& options) {
  const std::string name = Text(engine.name);
  if (engine.persistent && options.pool_path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "engine ", name, " needs a pool: give the path of a file, a poolset file or /dev/daxX.Y"));
  }
  if (!engine.persistent && !options.pool_path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine ", name, " stores nothing on a medium, so it cannot use the pool ",
                     options.pool_path, "; leave the pool out, or choose a persistent engine"));
  }
  if (options.inline_pairs && options.key_format != KeyFormat::kBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("inline_pairs belongs to key format bytes; key format ",
                     KeyFormatText(options.key_format), " holds every pair in its slot anyway"));
  }
  if (!engine.persistent && (options.pool_must_exist || !options.pool_identity_file.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine ", name,
                     " has no pool, so none can have to exist or be remembered; leave "
                     "pool_must_exist and pool_identity_file out, or choose a persistent engine"));
  }
  if (options.bulk_load.has_value() && engine.bulk_load == nullptr) return NoBulkLoad(engine.name);
  return absl::OkStatus();
}

absl::Status AlreadyHoldsData(const std::string& pool_path) {
  return absl::AlreadyExistsError(
      absl::StrCat("pool ", pool_path,
                   " has an engine already; a bulk load makes a new pool: name a path where there "
                   "is none, or add the pairs by writes"));
}

pmem::PoolOptions PoolOptionsOf(const EngineInfo& engine, const StoreOptions& options) {
  pmem::PoolOptions pool;
  pool.path = options.pool_path;
  pool.size_bytes = options.pool_size_bytes;
  pool.process_durability = options.process_durability;
  pool.allow_volatile_medium = options.allow_volatile_medium;
  pool.on_medium_failure = options.on_medium_failure;
  pool.guard_metadata = options.end_at_damaged_metadata;
  pool.journal_path = options.journal_path;
  pool.journal_bytes = options.journal_size_bytes;
  pool.checkpoint_bytes_per_second = options.checkpoint_bytes_per_second;
  pool.threads = options.recovery_threads;
  pool.verify_at_use = engine.verifies_at_use;
  return pool;
}

absl::Status StoreImpl::Open(const EngineInfo& engine, const StoreOptions& options) {
  engine_info_ = &engine;
  if (absl::Status status = CheckOptions(engine, options); !status.ok()) return status;
  absl::StatusOr<OptionValues> values = OptionValues::Parse(engine.options, options.engine_options);
  if (!values.ok()) return values.status();
  context_.options = *std::move(values);
  context_.key_format = options.key_format;
  context_.inline_pairs = options.inline_pairs;
  context_.recovery_threads = options.recovery_threads != 0
                                  ? options.recovery_threads
                                  : std::max(1u, std::thread::hardware_concurrency());
  context_.progress = options.progress;
  context_.on_recovery_end = options.on_recovery_end;
  if (!engine.persistent) return OpenVolatile(options);

  if (absl::Status status = ReadKnownId(options); !status.ok()) return status;
  const absl::StatusOr<pmem::PoolPath> path = pmem::PoolPath::Inspect(options.pool_path);
  if (!path.ok()) return path.status();
  const absl::StatusOr<bool> exists = path->Occupied();
  if (!exists.ok()) return exists.status();
  info_.replaced_empty_file = !*exists && path->kind == pmem::PoolPath::Kind::kFile;
  absl::Status status = *exists ? OpenPool(options) : CreatePool(options);
  if (!status.ok()) return status;
  Describe(options);
  return RememberPool(options);
}

absl::Status StoreImpl::OpenVolatile(const StoreOptions& options) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = MakeEngine(options);
  if (!engine.ok()) return engine.status();
  engine_ = *std::move(engine);
  info_.created = true;
  Describe(options);
  return absl::OkStatus();
}

absl::Status StoreImpl::ReadKnownId(const StoreOptions& options) {
  if (options.pool_identity_file.empty()) return absl::OkStatus();
  auto id = PoolIdentityFile(options.pool_identity_file).Read();
  if (!id.ok()) return id.status();
  known_id_ = *std::move(id);
  return absl::OkStatus();
}

absl::Status StoreImpl::CheckPoolMayBeCreated(const StoreOptions& options) const {
  const std::string found = absl::StrCat("there is no pool at ", options.pool_path,
                                         info_.replaced_empty_file ? ", but an empty file" : "");
  if (known_id_.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        found, ", and pool ", *known_id_, " was served before, as ", options.pool_identity_file,
        " says: put it back (mount its disk, restore a backup), or, to begin with an empty one, "
        "remove that file"));
  }
  if (!options.pool_must_exist) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(found,
                   ", and pool_must_exist is set: put the pool back (mount its disk, restore "
                   "a backup), or start without pool_must_exist once to create one"));
}

absl::Status StoreImpl::CheckKnownId(const pmem::PoolIdentity& there,
                                     const StoreOptions& options) const {
  const std::string id = IdText(there);
  if (!known_id_.has_value() || *known_id_ == id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("pool ", options.pool_path, " is pool ", id, ", and pool ", *known_id_,
                   " was served before, as ", options.pool_identity_file,
                   " says: put that one back, or, if this one is meant, remove that file"));
}

absl::Status StoreImpl::RememberPool(const StoreOptions& options) const {
  if (options.pool_identity_file.empty() || known_id_.has_value()) return absl::OkStatus();
  return PoolIdentityFile(options.pool_identity_file).Write(info_.pool_id);
}

absl::Status StoreImpl::CreatePool(const StoreOptions& options) {
  if (absl::Status status = CheckPoolMayBeCreated(options); !status.ok()) return status;
  pmem::PoolIdentity identity;
  identity.engine = Text(engine_info_->name);
  identity.media_version = engine_info_->media_version;
  identity.key_format = options.key_format;
  identity.inline_pairs = options.inline_pairs;
  absl::StatusOr<std::unique_ptr<pmem::Pool>> pool =
      pmem::Pool::Create(PoolOptionsOf(*engine_info_, options), identity);
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  absl::Status status = WatchPool(options);
  if (status.ok()) status = CreateEngine(options);
  if (status.ok() || LeftCutShort()) return status;
  if (absl::Status removed = pool_->CloseAndRemove(); !removed.ok()) {
    status = absl::Status(status.code(),
                          absl::StrCat(status.message(), "; and the new pool ", options.pool_path,
                                       " could not be removed: ", removed.message()));
  }
  pool_.reset();
  return status;
}

absl::Status StoreImpl::OpenPool(const StoreOptions& options) {
  absl::StatusOr<std::unique_ptr<pmem::Pool>> pool = pmem::Pool::Open(
      PoolOptionsOf(*engine_info_, options),
      [&](const pmem::PoolIdentity& there) { return CheckIdentity(there, options); });
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  // No engine: a crash came between the creation of the pool and of its engine, and the pool has
  // not been used yet.
  const bool created = pool_->engine_created();
  if (created && options.bulk_load.has_value()) {
    pool_->Close(pool_->was_clean()).IgnoreError();
    pool_.reset();
    return AlreadyHoldsData(options.pool_path);
  }
  if (!created) pool_->ResetForEngine();
  absl::Status status = WatchPool(options);
  if (status.ok()) status = created ? RecoverEngine() : CreateEngine(options);
  if (status.ok() || LeftCutShort()) return status;
  pool_->Close(false).IgnoreError();
  pool_.reset();
  return status;
}

absl::Status StoreImpl::CheckIdentity(const pmem::PoolIdentity& there,
                                      const StoreOptions& options) const {
  if (absl::Status status = CheckKnownId(there, options); !status.ok()) return status;
  const std::string pool = absl::StrCat("pool ", options.pool_path);
  const std::string wanted = Text(engine_info_->name);
  if (there.engine != wanted) {
    return absl::FailedPreconditionError(
        absl::StrCat(pool, " was made by engine ", there.engine, ", engine ", wanted,
                     " was asked for; open it with ", "engine ", there.engine,
                     ", or move the data into a pool of engine ", wanted));
  }
  if (there.media_version != engine_info_->media_version) {
    return absl::FailedPreconditionError(
        absl::StrCat(pool, " has media version ", there.media_version, " of engine ", wanted,
                     ", this program writes version ", engine_info_->media_version,
                     "; use the program that made the pool to move its data"));
  }
  if (there.key_format != options.key_format) {
    return absl::InvalidArgumentError(
        absl::StrCat(pool, " has key format ", KeyFormatText(there.key_format), ", key format ",
                     KeyFormatText(options.key_format),
                     " was asked for; the key format of a pool is chosen when it is created"));
  }
  if (there.inline_pairs != options.inline_pairs) {
    return absl::InvalidArgumentError(absl::StrCat(
        pool, " was created ", there.inline_pairs ? "with" : "without",
        " inline_pairs, it was to be opened ", options.inline_pairs ? "with" : "without",
        "; that is chosen when a pool is created"));
  }
  return absl::OkStatus();
}

// What make() returns; or, if that does not get the memory that it needs, an error that says so.
template <class Make>
absl::StatusOr<std::unique_ptr<Engine>> IfThereIsMemory(const EngineInfo& engine, Make make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the engine ", std::string(engine.name), " does not get the memory that it needs",
        "; or not the addresses, where `ulimit -v` limits them"));
  }
}

absl::StatusOr<std::unique_ptr<Engine>> StoreImpl::MakeEngine(const StoreOptions& options) {
  return IfThereIsMemory(*engine_info_, [&] {
    return options.bulk_load.has_value() ? engine_info_->bulk_load(context_, *options.bulk_load)
                                         : engine_info_->create(context_);
  });
}

absl::Status StoreImpl::CreateEngine(const StoreOptions& options) {
  context_.pool = pool_.get();
  absl::StatusOr<std::unique_ptr<Engine>> engine = MakeEngine(options);
  if (!engine.ok()) return engine.status();
  pool_->MarkEngineCreated();
  if (pool_->medium().failed()) return absl::DataLossError("a sync of the new pool failed");
  KeepEngine(*std::move(engine));
  info_.created = true;
  return absl::OkStatus();
}

absl::Status StoreImpl::RecoverEngine() {
  context_.pool = pool_.get();
  absl::StatusOr<std::unique_ptr<Engine>> engine = IfThereIsMemory(
      *engine_info_, [&] { return engine_info_->recover(context_, &info_.recovery); });
  if (!engine.ok()) return engine.status();
  KeepEngine(*std::move(engine));
  info_.recovery.clean = pool_->was_clean();
  return absl::OkStatus();
}

// Starts before the engine: a recovery may take long.
absl::Status StoreImpl::WatchPool(const StoreOptions& options) {
  if (!options.on_pool_gone) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<pmem::PoolWatch>> watch =
      pool_->Watch([this, told = options.on_pool_gone](const pmem::PoolLoss& loss) {
        told(loss.what);
        if (loss.cut_short) OnCutShort();
      });
  if (!watch.ok()) return watch.status();
  watch_ = *std::move(watch);
  return absl::OkStatus();
}

// At once, not when the store is closed: until then the engine's threads might meet a missing page.
void StoreImpl::OnCutShort() {
  const std::lock_guard lock(loss_mutex_);
  cut_short_ = true;
  if (engine_ != nullptr) engine_->Abandon();
}

void StoreImpl::KeepEngine(std::unique_ptr<Engine> engine) {
  const std::lock_guard lock(loss_mutex_);
  engine_ = std::move(engine);
  if (cut_short_) engine_->Abandon();
}

// Closing or destroying them would touch pages that no longer exist. They stay reachable for leak
// checkers.
void StoreImpl::Leave() {
  static auto& left = *new std::vector<std::pair<Engine*, pmem::Pool*>>;
  left.emplace_back(engine_.release(), pool_.release());
}

std::optional<pmem::PoolLoss> StoreImpl::StopWatch() {
  return watch_ != nullptr ? watch_->Stop() : std::nullopt;
}

// For an opening that failed. True: the pool is left as it is.
bool StoreImpl::LeftCutShort() {
  const std::optional<pmem::PoolLoss> loss = StopWatch();
  watch_.reset();
  if (!loss.has_value() || !loss->cut_short) return false;
  Leave();
  return true;
}

void StoreImpl::Describe(const StoreOptions& options) {
  info_.engine = Text(engine_info_->name);
  info_.media_version = engine_info_->media_version;
  info_.key_format = options.key_format;
  info_.inline_pairs = options.inline_pairs;
  info_.pool_path = options.pool_path;
  if (pool_ == nullptr) {
    info_.medium_class = "none";
    info_.durability = "none";
    info_.durability_detail = absl::StrCat("Nothing survives the end of the process: engine ",
                                           info_.engine, " stores nothing on a medium.");
    return;
  }
  info_.pool_bytes = pool_->bytes();
  info_.pool_id = IdText(pool_->identity());
  info_.medium_class = Text(pmem::MediumClassName(pool_->medium_class()));
  const bool is_volatile = pool_->medium_class() == pmem::MediumClass::kVolatile;
  info_.durability = options.process_durability || is_volatile ? "process" : "medium";
  info_.durability_detail = pool_->durability_detail();
  info_.long_fences = pool_->medium().long_fences();
  info_.journal_path = pool_->journal_path();
  const pmem::JournalReplay& replay = pool_->journal_replay();
  info_.journal_groups_replayed = replay.groups;
  info_.journal_lines_replayed = replay.lines;
  info_.journal_replay_ms = replay.milliseconds;
  info_.flushed_at_open = pool_->flush_at_open().done;
  info_.flush_at_open_ms = pool_->flush_at_open().milliseconds;
}

SpaceUse StoreImpl::GetSpaceUse() const {
  SpaceUse space;
  if (pool_ == nullptr) return space;
  space.total_bytes = pool_->capacity_bytes();
  space.used_bytes = std::min(pool_->allocated_bytes(), space.total_bytes);
  space.reserved_bytes = std::min(pool_->reserve_bytes(), space.total_bytes - space.used_bytes);
  space.free_bytes = space.total_bytes - space.used_bytes - space.reserved_bytes;
  return space;
}

absl::Status StoreImpl::Close() {
  if (engine_ == nullptr) return absl::OkStatus();
  const std::optional<pmem::PoolLoss> loss = StopWatch();
  if (loss.has_value() && loss->cut_short) {
    Leave();
    return absl::DataLossError(loss->what);
  }
  absl::Status status = engine_->Close();
  engine_.reset();
  if (pool_ == nullptr) return status;
  absl::Status pool_status = pool_->Close(status.ok());
  pool_.reset();
  if (loss.has_value()) return absl::DataLossError(loss->what);
  return status.ok() ? pool_status : status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  absl::StatusOr<const EngineInfo*> engine = FindEngine(options.engine);
  if (!engine.ok()) return absl::InvalidArgumentError(engine.status().message());
  return OpenWith(**engine, options);
}

absl::StatusOr<std::unique_ptr<Store>> Store::OpenWith(const EngineInfo& engine,
                                                       const StoreOptions& options) {
  auto store = std::make_unique<StoreImpl>();
  if (absl::Status status = store->Open(engine, options); !status.ok()) return status;
  return store;
}

}  // namespace lodgekv
