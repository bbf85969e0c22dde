#include "index/pmem/pool.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/pool_state.h"
#include "index/pmem/internal/unflushed.h"
#include "index/pmem/internal/zero_heads.h"
#include "index/pmem/last_words.h"

namespace lodgekv::pmem {
namespace {

constexpr uint64_t kSequenceBlock = uint64_t{1} << 20;
// A pool that has reserved numbers up to here has none left after a crash.
constexpr uint64_t kLastReserved = (uint64_t{1} << 52) - 1;
constexpr uint64_t kMaxReserveBytes = uint64_t{64} << 20;

uint64_t ReserveRows(const PoolGeometry& geometry) {
  const uint64_t bytes = std::min(geometry.pool_bytes / 100, kMaxReserveBytes);
  return std::max<uint64_t>(1, (bytes + geometry.chunk_cost() - 1) / geometry.chunk_cost());
}

[[noreturn]] void Die(const std::string& what) {
  LastWords words;
  words.Add("lodgekv pool: ");
  words.Add(what);
  words.Add("\n");
  words.Abort();
}

absl::Status CheckSequence(Medium& medium, uint64_t next) {
  if (medium.Canary("pmem.sequence.no_end")) return absl::OkStatus();
  if (next == 0 || next > kLastReserved + kSequenceBlock) {
    return absl::DataLossError(
        absl::StrCat("its header is damaged: sequence number ", next, " is not in 1 .. 2^52"));
  }
  if (next < kLastReserved) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("its sequence numbers are used up: the next would be ", next,
                   ", they end at 2^52; load a backup into a new pool"));
}

}  // namespace

std::string_view MediumClassName(MediumClass medium_class) {
  switch (medium_class) {
    case MediumClass::kPmemAdr: return "pmem-adr";
    case MediumClass::kPmemEadr: return "pmem-eadr";
    case MediumClass::kPmemForced: return "pmem-forced";
    case MediumClass::kCxl: return "cxl";
    case MediumClass::kFile: return "file";
    case MediumClass::kVolatile: return "volatile";
  }
  return "unknown";
}

absl::Status CompleteIdentity(PoolIdentity& identity) {
  if (identity.engine.empty() || identity.engine.size() >= media::kEngineNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine name \"", identity.engine, "\" has ", identity.engine.size(),
                     " bytes, it must have 1 to ", media::kEngineNameBytes - 1));
  }
  if (identity.pool_id != decltype(identity.pool_id){}) return absl::OkStatus();
  const ssize_t got = getrandom(identity.pool_id.data(), identity.pool_id.size(), 0);
  if (got == static_cast<ssize_t>(identity.pool_id.size())) return absl::OkStatus();
  return absl::InternalError("getrandom gave no random pool id");
}

Pool::~Pool() = default;

bool Pool::engine_created() const {
  std::lock_guard lock(state_->header_mu);
  return (state_->header.state().flags & media::kFlagEngineCreated) != 0;
}

void Pool::MarkEngineCreated() {
  BeginUse();
  std::lock_guard lock(state_->header_mu);
  media::StateSlot next = state_->header.state();
  next.flags |= media::kFlagEngineCreated;
  state_->header.Update(next);
}

void Pool::ResetForEngine() {
  if (engine_created()) Die("reset of a pool that has an engine");
  for (const Chunk& chunk : Chunks()) ReleaseChunk(chunk.index);
  for (const Offset offset : LargeObjects()) FreeLarge(offset);
  medium_->StoreZeros(engine_area_.data(), engine_area_.size_bytes());
  medium_->Persist(engine_area_.data(), engine_area_.size_bytes());
}

void Pool::ReserveSequence(uint64_t at_least) {
  std::lock_guard lock(state_->header_mu);
  if (at_least <= sequence_refill_.load(std::memory_order_relaxed)) return;
  const bool endless = medium_->Canary("pmem.sequence.no_end");
  if (at_least > kLastReserved && !endless) Die("the sequence numbers are used up (2^52)");
  media::StateSlot next = state_->header.state();
  next.sequence = at_least + kSequenceBlock;
  if (!endless) next.sequence = std::min(next.sequence, kLastReserved);
  if (!medium_->Canary("pmem.sequence.not_durable")) state_->header.Update(next);
  sequence_refill_.store(next.sequence, std::memory_order_relaxed);
}

uint64_t Pool::applied_index() const {
  std::lock_guard lock(state_->header_mu);
  return state_->header.state().applied_index;
}

void Pool::PersistAppliedIndex(uint64_t index) {
  BeginUse();
  std::lock_guard lock(state_->header_mu);
  media::StateSlot next = state_->header.state();
  if (index <= next.applied_index) return;
  next.applied_index = index;
  state_->header.Update(next);
}

absl::StatusOr<Chunk> Pool::AcquireChunk(ChunkUse use, uint32_t unit_bytes, ReservePolicy policy,
                                         bool zero_heads) {
  BeginUse();
  std::lock_guard lock(state_->chunk_mu);
  const auto prepare = [&](const Chunk& chunk) {
    if (zero_heads) ZeroUnitHeads(*medium_, base_ + chunk.begin, chunk);
  };
  auto chunk = state_->table->Acquire(*state_->source, {use, unit_bytes, policy}, prepare);
  if (chunk.ok()) NoteTight();
  return chunk;
}

void Pool::NoteTight() {
  constexpr uint64_t kTightShare = 16;
  const ChunkTable& table = *state_->table;
  const uint64_t rows = table.rows().size();
  const uint64_t used =
      table.rows_in_use() + state_->source->large_bytes_taken() / table.chunk_cost();
  tight_.store(used + table.reserve_rows() + rows / kTightShare >= rows, std::memory_order_relaxed);
}

void Pool::ReleaseChunk(uint32_t index) {
  BeginUse();
  std::lock_guard lock(state_->chunk_mu);
  state_->seal->Forget(index);
  state_->table->Release(index);
  NoteTight();
  NoteCameFree();
}

void Pool::AddHolder(ChunkHolder* holder) {
  std::lock_guard lock(state_->holder_mu);
  state_->holders.push_back(holder);
}

void Pool::RemoveHolder(ChunkHolder* holder) {
  // An arena may outlive its pool's Close.
  if (state_ == nullptr) return;
  std::lock_guard lock(state_->holder_mu);
  std::erase(state_->holders, holder);
}

bool Pool::CollectEmptyChunks() {
  std::lock_guard lock(state_->holder_mu);
  bool any = false;
  for (ChunkHolder* holder : state_->holders) any |= holder->GiveBackEmptyChunks();
  return any;
}

std::vector<Chunk> Pool::Chunks() const {
  std::lock_guard lock(state_->chunk_mu);
  return state_->table->InUse();
}

Chunk Pool::FindChunk(Offset offset) const { return state_->table->Find(offset); }

Offset Pool::ReserveLarge(uint64_t bytes, ReservePolicy policy) {
  auto& [refused, memo] = state_->full_for_large[static_cast<size_t>(policy)];
  if (bytes >= refused.load(std::memory_order_relaxed) && memo.Holds(came_free())) return 0;
  Offset offset = TryReserveLarge(bytes, policy);
  if (offset != 0) return offset;
  NoteFull();
  const uint64_t before = came_free();
  if (CollectEmptyChunks()) offset = TryReserveLarge(bytes, policy);
  if (offset != 0) return offset;
  refused.store(bytes, std::memory_order_relaxed);
  memo.Note(before);
  return 0;
}

Offset Pool::TryReserveLarge(uint64_t bytes, ReservePolicy policy) {
  BeginUse();
  std::lock_guard lock(state_->chunk_mu);
  const uint64_t keep = policy == ReservePolicy::kKeep ? state_->table->reserve_rows() : 0;
  ChunkSource& source = *state_->source;
  if (!state_->table->Stock(source, keep)) return 0;
  ChunkSource::Large large = source.ReserveLarge(*state_->table, bytes, keep);
  if (large.offset == 0) {
    // Unused chunks may occupy the space.
    state_->table->Trim(source, keep);
    large = source.ReserveLarge(*state_->table, bytes, keep);
  }
  if (large.offset == 0) return 0;
  std::lock_guard large_lock(state_->large_mu);
  state_->large[large.offset] = large.bytes;
  return large.offset;
}

void Pool::CommitLarge(Offset offset) {
  std::lock_guard lock(state_->chunk_mu);
  state_->source->CommitLarge(*state_->table, offset);
}

void Pool::FreeLarge(Offset offset) {
  BeginUse();
  std::lock_guard lock(state_->chunk_mu);
  {
    std::lock_guard large_lock(state_->large_mu);
    if (state_->large.erase(offset) == 0) {
      Die(absl::StrCat("free of offset ", offset, ", where no large object begins"));
    }
  }
  state_->source->FreeLarge(*state_->table, offset);
  NoteCameFree();
}

uint64_t Pool::LargeBytes(Offset offset) const {
  std::shared_lock lock(state_->large_mu);
  const auto it = state_->large.find(offset);
  return it == state_->large.end() ? 0 : it->second;
}

std::vector<Offset> Pool::LargeObjects() const {
  std::shared_lock lock(state_->large_mu);
  std::vector<Offset> offsets;
  for (const auto& [offset, bytes] : state_->large) offsets.push_back(offset);
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

uint64_t Pool::capacity_bytes() const {
  std::lock_guard lock(state_->chunk_mu);
  return state_->source->capacity_bytes();
}

uint64_t Pool::allocated_bytes() const {
  std::lock_guard lock(state_->chunk_mu);
  return state_->table->rows_in_use() * state_->table->chunk_cost() +
         state_->source->large_bytes_taken();
}

uint64_t Pool::reserve_bytes() const {
  return state_->table->reserve_rows() * state_->table->chunk_cost();
}

absl::Status Pool::Adopt() {
  PoolHeader& header = state_->header;
  identity_ = header.identity();
  crc_seed_ = header.crc_seed();
  engine_area_ = header.engine_area();
  bytes_ = header.geometry().pool_bytes;
  chunk_bytes_ = header.geometry().chunk_bytes;
  was_clean_ = header.sealed();
  if (absl::Status status = CheckSequence(*medium_, header.state().sequence); !status.ok())
    return status;
  state_->table = std::make_unique<ChunkTable>(*medium_, header, ReserveRows(header.geometry()));
  if (absl::Status status = state_->table->Load(*state_->source); !status.ok()) return status;
  state_->seal =
      std::make_unique<ChunkSeal>(*state_->table, base_, crc_seed_, contents_.unverified_);
  contents_.seal_ = state_->seal.get();
  contents_.threads_ = threads_;
  if (was_clean_) {
    state_->seal->Expect();
    if (!contents_.at_use_) {
      if (absl::Status status = state_->seal->VerifyAll(threads_); !status.ok()) return status;
    }
  }
  for (const ChunkSource::Large& large : state_->source->LargeObjects()) {
    state_->large[large.offset] = large.bytes;
  }
  NoteTight();
  if (stores_unflushed_) return absl::OkStatus();
  const absl::StatusOr<FlushAtOpen> flush =
      PersistUnflushed({header, *medium_, base_, bytes_, state_->files, threads_});
  if (!flush.ok()) return flush.status();
  flush_at_open_ = *flush;
  return absl::OkStatus();
}

void Pool::StartNumbers() {
  // What a killed process stored and did not flush is visible here, and a power cut could still
  // undo it.
  if (!was_clean_) state_->header.Persist();
  const uint64_t next = state_->header.state().sequence;
  sequence_.store(next, std::memory_order_relaxed);
  sequence_refill_.store(next, std::memory_order_relaxed);  // none is reserved
  if (contents_.unverified_ == 0) BeginUse();
}

void Pool::BeginUse() {
  if (in_use_.load(std::memory_order_acquire)) return;
  if (stores_unflushed_) {
    const std::lock_guard lock(state_->header_mu);
    state_->header.MarkUnflushed();
  }
  ReserveSequence(sequence_.load(std::memory_order_relaxed) + 1);
  in_use_.store(true, std::memory_order_release);
}

const JournalReplay& Pool::journal_replay() const {
  static constexpr JournalReplay kNone;
  return state_->journal != nullptr ? state_->journal->replay() : kNone;
}

std::optional<JournalUse> Pool::journal_use() const {
  if (state_->journal == nullptr || state_->journal->journal() == nullptr) return std::nullopt;
  return state_->journal->journal()->use();
}

std::string Pool::journal_path() const {
  if (state_->journal == nullptr || state_->journal->journal() == nullptr) return {};
  return state_->journal->place_name();
}

absl::Status Pool::Close(bool clean) {
  // A pool that was never put to use stays as it was found, however it is closed.
  const bool untouched = state_->header.sealed();
  const bool whole = (!clean && !untouched) || state_->journal == nullptr ||
                     state_->journal->End(state_->direct_fence);
  if (clean && !untouched && whole && !medium_->failed()) {
    state_->seal->Make(threads_);
    std::lock_guard lock(state_->header_mu);
    media::StateSlot next = state_->header.state();
    next.sequence = sequence_.load(std::memory_order_relaxed);
    if (!medium_->failed()) state_->header.Seal(next);
  }
  const bool failed = !whole || medium_->failed();
  const absl::Status status = Detach(false);
  if (!failed) return status;
  return absl::DataLossError("a sync of the pool failed; it is not marked clean");
}

absl::Status Pool::CloseAndRemove() { return Detach(true); }

absl::Status Pool::Detach(bool remove) {
  const std::unique_ptr<PoolMapping> mapping = std::move(state_->mapping);
  const std::unique_ptr<FileSync> file_sync = std::move(state_->file_sync);
  const std::unique_ptr<PoolJournal> journal = std::move(state_->journal);
  if (journal != nullptr) journal->Stop();
  state_.reset();
  base_ = nullptr;
  engine_area_ = {};
  if (!remove || mapping == nullptr) return absl::OkStatus();
  // The journal is removed last: if the pool remained without it, it could not be opened.
  absl::Status status = mapping->CloseAndRemove();
  if (status.ok() && journal != nullptr) status = journal->Remove();
  return status;
}

}  // namespace lodgekv::pmem
