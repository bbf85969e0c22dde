#include "index/pmem/internal/pool_journal.h"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "index/pmem/crash_point.h"
#include "index/pmem/internal/journal_blocks.h"
#include "index/pmem/internal/journal_file.h"
#include "index/pmem/internal/journal_reader.h"

namespace lodgekv::pmem {
namespace {

constexpr uint64_t kLeastBytes = kJournalSegments * Journal::kMinSegmentBytes;
constexpr uint64_t kDefaultMostBytes = uint64_t{128} << 20;
constexpr uint64_t kMostBytes = uint64_t{64} << 30;
constexpr uint64_t kPoolShare = 8;

std::string IdText(const uint8_t (&pool_id)[16]) {
  return absl::BytesToHexString(
      std::string(reinterpret_cast<const char*>(pool_id), sizeof pool_id));
}

bool AllZero(JournalStorage& storage) {
  constexpr uint64_t kPiece = 64 * kJournalBlock;
  const JournalBlocks memory = MakeBlocks(kPiece);
  for (uint64_t at = 0; at < storage.bytes(); at += kPiece) {
    const std::span<std::byte> piece(memory.get(), std::min(kPiece, storage.bytes() - at));
    if (!storage.Read(at, piece).ok()) return false;
    if (std::any_of(piece.begin(), piece.end(), [](std::byte b) { return b != std::byte{0}; })) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<uint64_t> DrawSession() {
  uint64_t session = 0;
  while ((session & JournalWord::kSessionMask) == 0) {
    if (getrandom(&session, sizeof session, 0) != sizeof session) {
      return absl::InternalError("getrandom gave no number for a session of the journal");
    }
  }
  return session;
}

}  // namespace

absl::StatusOr<uint64_t> JournalBytes(uint64_t wanted, uint64_t pool_bytes) {
  if (wanted != 0 && (wanted < kLeastBytes || wanted > kMostBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "journal_size ", wanted, " is out of bounds: it must be ", kLeastBytes, " to ", kMostBytes,
        " bytes, or 0 for an eighth of the pool and at most ", kDefaultMostBytes));
  }
  const uint64_t bytes =
      wanted != 0 ? wanted : std::clamp(pool_bytes / kPoolShare, kLeastBytes, kDefaultMostBytes);
  constexpr uint64_t kGrain = kJournalSegments * kJournalBlock;
  return bytes / kGrain * kGrain;
}

// --- the place ---

absl::StatusOr<std::shared_ptr<JournalStorage>> JournalFilePlace::Open() {
  absl::StatusOr<std::unique_ptr<JournalFile>> file = JournalFile::Open(path_);
  if (!file.ok()) return file.status();
  return std::shared_ptr<JournalStorage>(*std::move(file));
}

absl::StatusOr<std::shared_ptr<JournalStorage>> JournalFilePlace::Make(uint64_t bytes) {
  if (absl::Status status = Remove(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<JournalFile>> file = JournalFile::Create(path_, bytes);
  if (!file.ok()) return file.status();
  return std::shared_ptr<JournalStorage>(*std::move(file));
}

absl::Status JournalFilePlace::Remove() { return JournalFile::Remove(path_); }

// --- who owns it ---

PoolJournal::~PoolJournal() {
  journal_.reset();
  if (made_) place_->Remove().IgnoreError();
}

absl::Status PoolJournal::Named(const absl::Status& status) const {
  return absl::Status(status.code(),
                      absl::StrCat("journal ", place_->name(), ": ", status.message()));
}

uint32_t PoolJournal::SeedOf(uint64_t session) const {
  return options_.medium->Canary("pmem.journal.any_session") ? crc_seed()
                                                             : JournalSeed(crc_seed(), session);
}

bool PoolJournal::IsOurs(const media::JournalHeader& header) const {
  const auto& id = options_.header->identity().pool_id;
  return std::equal(id.begin(), id.end(), std::begin(header.pool_id));
}

absl::Status PoolJournal::CheckOwner(const media::JournalHeader& header, uint64_t session) const {
  if (!IsOurs(header)) {
    return absl::FailedPreconditionError(
        absl::StrCat("it belongs to pool ", IdText(header.pool_id),
                     ", not to this one, which needs its own: acknowledged writes are only "
                     "in there; put it in its place, or name it with journal_path"));
  }
  if ((header.session & JournalWord::kSessionMask) == session) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "it belongs to this pool, but to another run of it: pool and journal were copied or restored "
      "at different times, and acknowledged writes are in neither; put the journal that belongs "
      "to this copy of the pool in its place, or restore both from one backup");
}

// A pool that is closed cleanly has made its journal count for nothing before. So groups of a later
// run are those of another copy of the pool: it has the same id.
absl::Status PoolJournal::CheckNoCopyNeeds(JournalStorage& storage,
                                           const media::JournalHeader& header) const {
  if (replayed_ || !options_.header->sealed()) return absl::OkStatus();
  JournalReader reader(storage, header.segment_bytes, SeedOf(header.session),
                       options_.medium->tracer());
  const absl::Status status = reader.Find();
  if (status.ok() && reader.groups() == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "it is needed by another copy of this pool, one that was not closed cleanly after this one "
      "was: acknowledged writes of that copy are only in there; start that copy with it, or give "
      "this one another journal_path");
}

absl::StatusOr<bool> PoolJournal::Usable(JournalStorage& storage) const {
  const absl::StatusOr<media::JournalHeader> header = ReadJournalHeader(storage);
  if (header.ok()) {
    const bool fits = header->segment_bytes * kJournalSegments == options_.bytes;
    if (header->needed == 0) return fits;
    if (IsOurs(*header)) {
      if (absl::Status status = CheckNoCopyNeeds(storage, *header); !status.ok()) return status;
      return fits;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "it belongs to pool ", IdText(header->pool_id),
        ", which was not closed cleanly and may need it; choose another journal_path, or remove "
        "the journal if that pool is gone"));
  }
  // An interrupted creation leaves no content at all.
  if (header.status().code() == absl::StatusCode::kNotFound && AllZero(storage)) return false;
  return absl::FailedPreconditionError(
      absl::StrCat("it is in the way: ", header.status().message(),
                   "; nothing is written over it: choose another journal_path, or remove it"));
}

// --- opening ---

absl::Status PoolJournal::Prepare() {
  absl::StatusOr<std::shared_ptr<JournalStorage>> there = place_->Open();
  if (!there.ok() && there.status().code() != absl::StatusCode::kNotFound) return there.status();
  if (there.ok()) {
    const absl::StatusOr<bool> usable = Usable(**there);
    if (!usable.ok()) return Named(usable.status());
    if (*usable) {
      storage_ = *std::move(there);
      return absl::OkStatus();
    }
    there->reset();
  }
  absl::StatusOr<std::shared_ptr<JournalStorage>> made =
      place_->Make(kJournalSegmentsBegin + options_.bytes);
  if (!made.ok()) return made.status();
  storage_ = *std::move(made);
  made_ = true;
  return absl::OkStatus();
}

absl::Status PoolJournal::Recover() {
  const absl::StatusOr<uint64_t> session = options_.header->NeededSession();
  if (!session.ok()) return session.status();
  if (*session == 0) return absl::OkStatus();
  const absl::StatusOr<JournalMarks> marks = options_.header->Marks();
  if (!marks.ok()) return marks.status();
  if (place_ == nullptr) return absl::FailedPreconditionError("it needs a journal, and has none");
  const absl::StatusOr<std::shared_ptr<JournalStorage>> storage = place_->Open();
  if (storage.status().code() == absl::StatusCode::kNotFound) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it was not closed cleanly and needs its journal, which is not at ", place_->name(),
        ": acknowledged writes are only in there; put it back, or name it with "
        "journal_path"));
  }
  if (!storage.ok()) return storage.status();
  const absl::StatusOr<media::JournalHeader> header = ReadJournalHeader(**storage);
  if (!header.ok()) return Named(header.status());
  if (absl::Status status = CheckOwner(*header, *session); !status.ok()) return Named(status);
  if (absl::Status status = Replay(**storage, *header, *marks); !status.ok()) return Named(status);
  // Not before the pool is complete.
  options_.header->StoreNeededSession(0);
  replayed_ = true;
  LODGEKV_CRASH_POINT(*options_.medium, "pmem.journal_replay.3");
  if (!options_.medium->failed()) return absl::OkStatus();
  return absl::DataLossError("a sync of it failed after its journal was replayed");
}

absl::Status PoolJournal::Replay(JournalStorage& storage, const media::JournalHeader& header,
                                 const JournalMarks& marks) {
  const auto begun = std::chrono::steady_clock::now();
  Medium& medium = *options_.medium;
  JournalReader reader(storage, header.segment_bytes, SeedOf(header.session), medium.tracer());
  if (absl::Status status = reader.Find(); !status.ok()) return status;
  if (absl::Status status = CheckMoment(marks, reader); !status.ok()) return status;
  const bool early = medium.Canary("pmem.journal.let_go_early");
  if (early) options_.header->StoreNeededSession(0);
  absl::Status status =
      ReplayJournal(reader, medium, options_.base, options_.pool_bytes, options_.foreign, &replay_);
  if (!status.ok()) return status;
  // The replayed data may not be on the medium: then the pool still needs its journal.
  if (!early && !SyncReplayed()) {
    return absl::DataLossError("a sync of the pool failed after its replay");
  }
  LODGEKV_CRASH_POINT(medium, "pmem.journal_replay.2");
  replay_.milliseconds =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                std::chrono::steady_clock::now() - begun)
                                .count());
  return absl::OkStatus();
}

// Also if this session syncs nothing (durability `process`): the replayed one did.
bool PoolJournal::SyncReplayed() {
  options_.medium->Fence();
  if (options_.medium->failed()) return false;
  const bool synced = options_.medium->mode() == FlushMode::kFile || options_.pool == nullptr;
  return synced || options_.pool->WriteBackAll();
}

absl::Status PoolJournal::WriteHeader(uint64_t session, bool needed) {
  media::JournalHeader header{};
  const auto& id = options_.header->identity().pool_id;
  std::copy(id.begin(), id.end(), std::begin(header.pool_id));
  header.session = session;
  header.segment_bytes = options_.bytes / kJournalSegments;
  header.needed = needed ? 1 : 0;
  return WriteJournalHeader(*storage_, header);
}

absl::Status PoolJournal::Begin() {
  // That the pool needs no journal, and has no marks, may be in memory alone: the process that
  // stored it was killed before its sync was over. From here on the journal of then is gone.
  options_.header->StoreNeededSession(0);
  LODGEKV_CRASH_POINT(*options_.medium, "pmem.journal_begin.1");
  if (options_.medium->failed()) return absl::DataLossError("a sync of it failed");
  if (storage_ == nullptr) {
    if (absl::Status status = Prepare(); !status.ok()) return status;
  }
  const absl::StatusOr<uint64_t> session = DrawSession();
  if (!session.ok()) return session.status();
  if (options_.medium->Canary("pmem.journal.word_first")) {
    options_.header->StoreNeededSession(*session);
  }
  if (absl::Status status = WriteHeader(*session, true); !status.ok()) return status;
  made_ = false;
  LODGEKV_CRASH_POINT(*options_.medium, "pmem.journal_begin.2");
  options_.header->StoreNeededSession(*session);
  LODGEKV_CRASH_POINT(*options_.medium, "pmem.journal_begin.3");
  if (options_.medium->failed()) return absl::DataLossError("a sync of it failed");
  Journal::Options options;
  options.storage = storage_.get();
  options.pool = options_.pool;
  options.base = options_.base;
  options.pool_bytes = options_.pool_bytes;
  options.segment_bytes = options_.bytes / kJournalSegments;
  options.crc_seed = SeedOf(*session);
  options.foreign = options_.foreign;
  options.checkpoint_mark = &options_.header->checkpoint_mark();
  options.group_mark = &options_.header->group_mark();
  options.checkpoint_bytes_per_second = options_.checkpoint_bytes_per_second;
  options.background = options_.background;
  options.on_failure = options_.on_failure;
  options.tracer = options_.medium->tracer();
  journal_ = std::make_unique<Journal>(options);
  options_.medium->SetFileFence(journal_.get());
  return absl::OkStatus();
}

// --- closing ---

bool PoolJournal::End(FileFence* direct) {
  if (journal_ == nullptr) return true;
  Medium& medium = *options_.medium;
  const bool whole =
      !medium.failed() && (medium.Canary("pmem.journal.end_unsynced") || journal_->SyncPool());
  LODGEKV_CRASH_POINT(medium, "pmem.journal_end.1");
  if (!whole) {
    // Made durable: nobody may consider the pool, which needs its journal, complete.
    medium.Fence();
    return false;
  }
  journal_.reset();
  medium.SetFileFence(direct);
  options_.header->StoreNeededSession(0);
  LODGEKV_CRASH_POINT(medium, "pmem.journal_end.2");
  // Only other processes read it: it may fail.
  if (!medium.failed()) WriteHeader(0, false).IgnoreError();
  storage_.reset();
  return !medium.failed();
}

absl::Status PoolJournal::Remove() {
  made_ = false;
  return storage_ != nullptr ? place_->Remove() : absl::OkStatus();
}

}  // namespace lodgekv::pmem
