#include <utility>

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/arena_source.h"
#include "index/pmem/internal/pool_state.h"
#include "index/pmem/pool.h"

namespace lodgekv::pmem {
namespace {

constexpr size_t kMinArenaBytes = size_t{64} << 10;
constexpr uintptr_t kArenaAlignment = 4096;

absl::Status CheckMemory(std::span<std::byte> memory) {
  if (memory.size() < kMinArenaBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an arena of ", memory.size(), " bytes is too small, it must have ", kMinArenaBytes));
  }
  if (reinterpret_cast<uintptr_t>(memory.data()) % kArenaAlignment != 0) {
    return absl::InvalidArgumentError("an arena must begin at a multiple of 4096");
  }
  return absl::OkStatus();
}

std::unique_ptr<Medium> ArenaMedium(const Pool::ArenaOptions& options) {
  Medium::Options medium;
  medium.mode = FlushMode::kNone;
  medium.fence_instruction = false;
  medium.strict_order = options.strict_order;
  medium.long_fences = options.long_fences.value_or(options.strict_order);
  medium.tracer = options.tracer;
  if (options.journal != nullptr) {
    medium.mode = FlushMode::kFile;
    medium.strict_order = true;
    medium.file_fence = options.journal->direct;
  }
  return std::make_unique<Medium>(medium);
}

}  // namespace

void Pool::AttachJournal(const ArenaOptions& options) {
  PoolJournal::Options journal;
  journal.header = &state_->header;
  journal.medium = medium_.get();
  journal.base = base_;
  journal.pool_bytes = options.memory.size();
  journal.background = false;
  std::shared_ptr<JournalPlace> place;
  if (options.journal != nullptr) {
    journal.pool = options.journal->pool;
    journal.bytes = options.journal->bytes;
    place = options.journal->place;
    state_->direct_fence = options.journal->direct;
    state_->files = options.journal->pool;
    state_->header.MarkUnflushedWith(*state_->files);
  }
  state_->journal = std::make_unique<PoolJournal>(journal, std::move(place));
}

// The state is loaded, or is that of a new pool.
absl::Status Pool::BeginArena(const ArenaOptions& options) {
  if (absl::Status status = Adopt(); !status.ok()) return status;
  if (options.journal != nullptr) {
    if (absl::Status status = state_->journal->Begin(); !status.ok()) return status;
  }
  StartNumbers();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Pool>> Pool::CreateArena(const ArenaOptions& options,
                                                        const PoolIdentity& identity) {
  if (absl::Status status = CheckMemory(options.memory); !status.ok()) return status;
  absl::StatusOr<PoolGeometry> geometry =
      ArenaSource::Cut(options.memory.size(), options.chunk_bytes);
  if (!geometry.ok()) return geometry.status();
  PoolIdentity complete = identity;
  if (absl::Status status = CompleteIdentity(complete); !status.ok()) return status;

  auto pool = std::unique_ptr<Pool>(new Pool);
  pool->base_ = reinterpret_cast<char*>(options.memory.data());
  pool->medium_ = ArenaMedium(options);
  pool->stores_unflushed_ = options.process_durability;
  pool->state_ = std::make_unique<State>(*pool->medium_, pool->At<media::Header>(0));
  pool->state_->source = std::make_unique<ArenaSource>(*geometry);
  PoolHeader& header = pool->state_->header;
  header.Prepare(complete, *geometry);
  ArenaSource::Format(*pool->medium_, header);
  header.Finish();
  pool->AttachJournal(options);
  if (absl::Status status = pool->BeginArena(options); !status.ok()) return status;
  return pool;
}

absl::StatusOr<std::unique_ptr<Pool>> Pool::OpenArena(const ArenaOptions& options) {
  if (absl::Status status = CheckMemory(options.memory); !status.ok()) return status;
  auto pool = std::unique_ptr<Pool>(new Pool);
  pool->base_ = reinterpret_cast<char*>(options.memory.data());
  pool->medium_ = ArenaMedium(options);
  pool->contents_.at_use_ = options.verify_at_use;
  pool->stores_unflushed_ = options.process_durability;
  pool->state_ = std::make_unique<State>(*pool->medium_, pool->At<media::Header>(0));
  PoolHeader& header = pool->state_->header;
  absl::Status status = header.LoadIdentity(options.memory.size());
  if (!status.ok()) return status;
  pool->AttachJournal(options);
  status = pool->state_->journal->Recover();
  if (status.ok()) status = header.LoadState();
  if (!status.ok()) return status;
  const PoolGeometry& recorded = header.geometry();
  absl::StatusOr<PoolGeometry> cut = ArenaSource::Cut(options.memory.size(), recorded.chunk_bytes);
  if (!cut.ok() || cut->chunk_rows != recorded.chunk_rows ||
      recorded.pool_bytes != options.memory.size()) {
    return absl::DataLossError(absl::StrCat("the arena was created with ", recorded.pool_bytes,
                                            " bytes, it has ", options.memory.size()));
  }
  pool->state_->source = std::make_unique<ArenaSource>(recorded);
  status = pool->BeginArena(options);
  if (!status.ok()) return status;
  return pool;
}

}  // namespace lodgekv::pmem
