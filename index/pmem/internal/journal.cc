#include "index/pmem/internal/journal.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "index/pmem/crc32c.h"
#include "index/pmem/internal/dirty_page.h"
#include "index/pmem/internal/journal_marks.h"

namespace lodgekv::pmem {
namespace {

constexpr uint64_t kMostGroupBytes = uint64_t{1} << 20;
// A slice of a checkpoint: small, so that the next group does not wait long for the disk.
constexpr uint64_t kSlicePages = 64;

uint64_t GroupBytes(uint64_t segment_bytes) {
  return std::min(segment_bytes / 4 / kJournalBlock * kJournalBlock, kMostGroupBytes);
}

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace

Journal::Journal(const Options& options)
    : options_(options),
      most_lines_(options.segment_bytes / 2 / kLineBytes),
      most_later_(JournalGroupBuffer::MostLines(GroupBytes(options.segment_bytes))),
      write_back_(options.pool_bytes),
      open_(GroupBytes(options.segment_bytes), options.pool_bytes / kLineBytes, options.foreign),
      writing_(GroupBytes(options.segment_bytes), options.pool_bytes / kLineBytes, options.foreign),
      space_(options.segment_bytes),
      touched_(options.pool_bytes) {
  if (options.background) checkpoints_ = std::thread([this] { RunCheckpoints(); });
}

Journal::~Journal() {
  {
    const std::lock_guard lock(mu_);
    ending_ = true;
  }
  work_.notify_all();
  if (checkpoints_.joinable()) checkpoints_.join();
}

// --- flush and fence ---

void Journal::Note(const void* line) {
  DirtyPageOf(line);
  Noted& mine = noted_.Current();
  const std::lock_guard own(mine.mu);
  if (mine.too_many) return;
  const uint64_t number = LineNumber(line);
  if (!mine.lines.empty() && mine.lines.back() == number) return;
  mine.lines.push_back(number);
  if (mine.lines.size() <= most_lines_) return;
  mine.too_many = true;
  mine.lines.clear();
}

// Outside of all locks: if the page is clean, the kernel is asked.
void Journal::DirtyPageOf(const void* line) const {
  if (Canary("pmem.journal.pages_stay_clean")) return;
  DirtyPage(line);
  if (options_.tracer != nullptr) options_.tracer->OnStore(line, sizeof(uint64_t), false);
}

bool Journal::StoreLater(uint64_t* word, uint64_t value) {
  const uint64_t number =
      static_cast<uint64_t>(reinterpret_cast<char*>(word) - options_.base) / sizeof(uint64_t);
  if (Canary("pmem.journal.words_at_once")) {
    StoreWord({number, value});
    Note(word);
    return true;
  }
  Noted& mine = noted_.Current();
  {
    const std::lock_guard own(mine.mu);
    if (mine.later.size() < most_later_) {
      mine.later.push_back({number, value});
      return true;
    }
  }
  return Fence() && StoreLater(word, value);
}

bool Journal::Fence() {
  Noted& mine = noted_.Current();
  Lock own(mine.mu);
  if (mine.too_many) {
    mine.too_many = false;
    own.unlock();
    if (!SyncPool()) return false;
    own.lock();
  }
  mine.TakeLinesOfLater();
  Lock lock(mu_);
  if (mine.lines.empty() && mine.later.empty()) return !failed_;
  uint64_t last = Capture(lock, mine.lines);
  if (!mine.later.empty()) last = CaptureLater(lock, mine.lines_of_later, mine.later);
  mine.lines.clear();
  mine.later.clear();
  own.unlock();
  ++use_.fences;
  return Canary("pmem.journal.not_awaited") ? !failed_ : AwaitGroup(lock, last);
}

// Sorts the lines; those of words that are stored later are taken out of the others.
void Journal::Noted::TakeLinesOfLater() {
  const auto sort = [](std::vector<uint64_t>& numbers) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  };
  sort(lines);
  lines_of_later.clear();
  if (later.empty()) return;
  for (const LaterStore& store : later) lines_of_later.push_back(store.line());
  sort(lines_of_later);
  std::erase_if(lines, [this](uint64_t line) {
    return std::binary_search(lines_of_later.begin(), lines_of_later.end(), line);
  });
}

uint64_t Journal::Capture(Lock& lock, std::span<const uint64_t> lines) {
  for (size_t done = 0; done < lines.size() && !failed_;) {
    if (pool_syncs_waiting_ > 0) {
      changed_.wait(lock);
      continue;
    }
    const size_t taken = CaptureSome(lines.subspan(done));
    done += taken;
    if (done < lines.size()) (void)AwaitGroup(lock, open_sequence_);
  }
  return open_sequence_;
}

uint64_t Journal::CaptureLater(Lock& lock, std::span<const uint64_t> lines,
                               std::span<const LaterStore> stores) {
  while (!failed_ && (pool_syncs_waiting_ > 0 || !open_.HasRoomFor(lines.size()))) {
    if (pool_syncs_waiting_ > 0) {
      changed_.wait(lock);
    } else {
      (void)AwaitGroup(lock, open_sequence_);
    }
  }
  for (const LaterStore& store : stores) open_.later().Add(store);
  (void)CaptureSome(lines);
  return open_sequence_;
}

// As many as the open group has room for.
size_t Journal::CaptureSome(std::span<const uint64_t> lines) {
  static const LaterStores kNone;
  const bool patched = !Canary("pmem.journal.words_not_in_copies");
  const size_t taken = open_.Capture(options_.base, lines, patched ? writing_.later() : kNone);
  for (const uint64_t line : lines.first(taken)) touched_.Add(PageOfLine(line));
  return taken;
}

void Journal::StoreWord(const LaterStore& store) const {
  auto* word = reinterpret_cast<uint64_t*>(options_.base + store.word * sizeof(uint64_t));
  std::atomic_ref(*word).store(store.value, std::memory_order_release);
  if (options_.tracer != nullptr) options_.tracer->OnStore(word, sizeof(uint64_t), false);
}

void Journal::Mark(Word* mark, uint64_t group) const {
  const auto offset = static_cast<uint64_t>(reinterpret_cast<char*>(mark) - options_.base);
  StoreWord({offset / sizeof(uint64_t), EncodeMark(group)});
}

// The next checkpoint writes their pages; one that is under way may have written them before.
void Journal::StoreWords() {
  for (const LaterStore& store : writing_.later().stores()) {
    StoreWord(store);
    if (!Canary("pmem.journal.words_untouched")) touched_.Add(PageOfLine(store.line()));
  }
  writing_.later().Clear();
}

bool Journal::AwaitGroup(Lock& lock, uint64_t sequence) {
  while (!failed_ && durable_ < sequence) {
    if (writing_now_) {
      changed_.wait(lock);
    } else if (!space_.HasRoom(open_.bytes())) {
      AwaitRoom(lock);
    } else {
      WriteOpenGroup(lock);
    }
  }
  return !failed_;
}

void Journal::AwaitRoom(Lock& lock) {
  const uint64_t begun = NowNs();
  ++use_.waits;
  if (options_.background) {
    ++waiting_for_room_;
    work_.notify_all();
    changed_.wait(lock);
    --waiting_for_room_;
  } else {
    lock.unlock();
    (void)Checkpoint();
    lock.lock();
  }
  use_.wait_ns += NowNs() - begun;
}

void Journal::WriteOpenGroup(Lock& lock) {
  writing_now_ = true;
  std::swap(open_, writing_);
  open_.Reset();
  const uint64_t sequence = open_sequence_++;
  const bool had_full = space_.full_since_ns() != 0;
  const uint64_t offset = space_.Take(writing_.bytes(), sequence, NowNs());
  if (!had_full && space_.full_since_ns() != 0) work_.notify_all();
  lock.unlock();
  if (Canary("pmem.journal.group_marked_early")) Mark(options_.group_mark, sequence + 1);
  const std::span<const std::byte> group = writing_.Seal(sequence, options_.crc_seed);
  const absl::Status status = options_.storage->Write(offset, group);
  if (!status.ok()) Fail(std::string(status.message()));
  lock.lock();
  writing_now_ = false;
  ++use_.syncs;
  use_.written_bytes += group.size();
  if (!failed_) {
    StoreWords();
    durable_ = sequence;
    Mark(options_.group_mark, sequence + 1);
  }
  changed_.notify_all();
}

// --- freed space ---

bool Journal::Revoke(const void* address, uint64_t bytes) {
  const uint64_t first = LineNumber(address);
  const uint64_t count = bytes / kLineBytes;
  noted_.ForEach([&](Noted& noted) {
    if (Canary("pmem.journal.notes_stay")) return;
    const std::lock_guard lock(noted.mu);
    std::erase_if(noted.lines, [&](uint64_t line) { return line - first < count; });
    std::erase_if(noted.later, [&](const LaterStore& s) { return s.line() - first < count; });
  });
  Lock lock(mu_);
  if (Canary("pmem.journal.not_revoked")) return !failed_;
  while (!failed_ && !open_.AddRevocation(first, count)) (void)AwaitGroup(lock, open_sequence_);
  return AwaitGroup(lock, open_sequence_);
}

// --- the pool itself ---

bool Journal::SyncPool() {
  Lock lock(mu_);
  // No group may hold what was copied before the sync and be needed after it (rule 5).
  ++pool_syncs_waiting_;
  while (!failed_ && (writing_now_ || !open_.empty())) {
    (void)AwaitGroup(lock, open_.empty() ? open_sequence_ - 1 : open_sequence_);
  }
  const uint64_t sequence = open_sequence_;
  ++use_.pool_syncs;
  --pool_syncs_waiting_;
  changed_.notify_all();
  if (failed_) return false;
  MarkCheckpoint(sequence);
  lock.unlock();
  if (!options_.pool->WriteBackAll()) {
    Fail("");
    return false;
  }
  const std::lock_guard one(checkpoint_mu_);
  return Canary("pmem.journal.sync_undeclared") || Retire(sequence);
}

bool Journal::Checkpoint() {
  const std::lock_guard one(checkpoint_mu_);
  const uint64_t begun = NowNs();
  uint64_t sequence = 0;
  {
    Lock lock(mu_);
    sequence = open_sequence_;
    // The words of a group that is being written are not yet in the pool.
    const bool waits = !Canary("pmem.journal.words_retired");
    changed_.wait(lock, [&] { return failed_ || !waits || durable_ + 1 >= sequence; });
    if (failed_) return false;
    // The content of later groups so far is written back too, but is needed until the next
    // checkpoint.
    if (Canary("pmem.journal.retires_open_group")) ++sequence;
    std::swap(touched_, write_back_);
    MarkCheckpoint(sequence);
    if (!Canary("pmem.journal.mark_not_written_back")) {
      write_back_.Add(PageOfLine(LineNumber(options_.checkpoint_mark)));
    }
    used_before_checkpoint_ = space_.used_bytes();
  }
  if (Canary("pmem.journal.declared_first")) (void)Retire(sequence);
  const bool done = WriteBack(write_back_) && Retire(sequence);
  const uint64_t pages = write_back_.count();
  write_back_.Clear();
  const Lock lock(mu_);
  ++use_.checkpoints;
  use_.checkpoint_ns += NowNs() - begun;
  use_.written_back_bytes += pages * PageSet::kPageBytes;
  return done;
}

// A later one may have begun before.
void Journal::MarkCheckpoint(uint64_t sequence) {
  if (sequence <= marked_checkpoint_) return;
  marked_checkpoint_ = sequence;
  if (!Canary("pmem.journal.checkpoint_unmarked")) Mark(options_.checkpoint_mark, sequence);
}

bool Journal::WriteBack(const PageSet& pages) {
  uint64_t from = 0;
  uint64_t done = 0;
  for (;;) {
    const PageSet::Run slice = pages.Next(from, kSlicePages);
    if (slice.pages == 0) return true;
    if (Ending()) return false;
    const uint64_t begun = NowNs();
    const uint64_t bytes = std::min(slice.bytes, options_.pool_bytes - slice.begin);
    if (!options_.pool->WriteBack(slice.begin, bytes)) {
      Fail("");
      return false;
    }
    from = (slice.begin + slice.bytes) / PageSet::kPageBytes;
    done += slice.pages;
    const double share = static_cast<double>(done) / static_cast<double>(pages.count());
    if (options_.background) Pace(slice, share, begun);
  }
}

// Waits until the slice has taken as long as its rate requires, but not while the remaining
// segments fill faster than the checkpoint advances.
void Journal::Pace(const PageSet::Run& slice, double done, uint64_t begun_ns) {
  const uint64_t due_ns = begun_ns + slice.pages * PageSet::kPageBytes * 1'000'000'000 /
                                         options_.checkpoint_bytes_per_second;
  Lock lock(mu_);
  while (!ending_ && !failed_ && waiting_for_room_ == 0) {
    const uint64_t used = space_.used_bytes() - used_before_checkpoint_;
    const uint64_t left = space_.total_bytes() - used_before_checkpoint_;
    const uint64_t now = NowNs();
    if (now >= due_ns || static_cast<double>(used) > done * static_cast<double>(left)) return;
    constexpr uint64_t kLook = 5'000'000;
    work_.wait_for(lock, std::chrono::nanoseconds(std::min(due_ns - now, kLook)));
  }
}

bool Journal::Retire(uint64_t sequence) {
  {
    const Lock lock(mu_);
    if (failed_) return false;
    if (sequence <= replay_from_) return true;
  }
  alignas(kJournalBlock) std::byte block[kJournalBlock]{};
  media::JournalCheckpoint checkpoint{};
  checkpoint.replay_from = sequence;
  checkpoint.crc = Crc32c(options_.crc_seed, &checkpoint, offsetof(media::JournalCheckpoint, crc));
  std::memcpy(block, &checkpoint, sizeof checkpoint);
  const uint64_t slot = Canary("pmem.journal.one_block") ? 0 : checkpoints_written_++ % 2;
  absl::Status status;
  if (!Canary("pmem.journal.freed_undeclared")) {
    status = options_.storage->Write(kJournalCheckpointBegin + slot * kJournalBlock, block);
  }
  if (!status.ok()) {
    Fail(std::string(status.message()));
    return false;
  }
  const Lock lock(mu_);
  replay_from_ = sequence;
  space_.FreeBelow(sequence);
  changed_.notify_all();
  return true;
}

bool Journal::Ending() const {
  const Lock lock(mu_);
  return ending_ || failed_;
}

void Journal::RunCheckpoints() {
  Lock lock(mu_);
  while (!ending_ && !failed_) {
    if (space_.full_since_ns() == 0 && waiting_for_room_ == 0) {
      work_.wait(lock);
      continue;
    }
    lock.unlock();
    (void)Checkpoint();
    lock.lock();
  }
}

// Calls the handler first: it ends the process, and no thread whose fence has failed may store data
// that depends on it.
void Journal::Fail(const std::string& what) {
  Lock lock(mu_);
  if (told_) {
    changed_.wait(lock, [this] { return failed_; });
    return;
  }
  told_ = true;
  lock.unlock();
  // If empty, the pool's files have already reported it.
  if (!what.empty() && options_.on_failure) options_.on_failure(what);
  lock.lock();
  failed_ = true;
  changed_.notify_all();
  work_.notify_all();
}

JournalUse Journal::use() const {
  const Lock lock(mu_);
  JournalUse use = use_;
  use.size_bytes = space_.total_bytes();
  use.used_bytes = space_.used_bytes();
  const uint64_t full_since_ns = space_.full_since_ns();
  use.lag_ns = full_since_ns == 0 ? 0 : NowNs() - full_since_ns;
  return use;
}

}  // namespace lodgekv::pmem
