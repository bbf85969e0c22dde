#include "tests/crash/scenarios/journal_scenario.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/journal.h"
#include "index/pmem/internal/journal_marks.h"
#include "index/pmem/internal/journal_reader.h"
#include "index/pmem/internal/journal_replay.h"
#include "tests/crash/lab/journal_words.h"
#include "tests/crash/lab/workers.h"

namespace lodgekv::test {
namespace {

using pmem::Journal;
using pmem::kLineBytes;

constexpr uint64_t kPages = 72;  // more than a slice of a checkpoint
constexpr uint64_t kPoolBytes = kPages * pmem::PageSet::kPageBytes;
constexpr uint64_t kSegmentBytes = 16384;
constexpr uint32_t kPoolSeed = 7;

// The lines used: one or two of each page, some consecutive ones, and a table in which libpmemobj
// owns some words.
constexpr uint64_t kScattered = 2 * kPages;
constexpr uint64_t kRegions = 4;  // of space that is freed
constexpr uint64_t kRegionLines = 12;
constexpr uint64_t kTableLines = 8;
constexpr uint8_t kOursOfTable = 0b11001100;
constexpr uint64_t kTableBegin = kScattered + kRegions * kRegionLines;

// The marks of the journal, in a line of their own.
constexpr uint64_t kCheckpointMark = kPoolBytes - kLineBytes;
constexpr uint64_t kGroupMark = kCheckpointMark + sizeof(uint64_t);

std::vector<uint64_t> LinesInUse() {
  constexpr uint64_t kLinesOfPage = pmem::PageSet::kPageBytes / kLineBytes;
  std::vector<uint64_t> lines;
  for (uint64_t i = 0; i < kScattered; ++i) {
    lines.push_back(i / 2 * kLinesOfPage + (i % 2 == 0 ? 3 : 4 + i / 2 % 3));
  }
  for (uint64_t i = 0; i < kRegions * kRegionLines; ++i) {
    lines.push_back(i / kRegionLines * 9 * kLinesOfPage + 20 + i % kRegionLines);
  }
  for (uint64_t i = 0; i < kTableLines; ++i) lines.push_back(50 * kLinesOfPage + 40 + i);
  return lines;
}

pmem::ForeignWords ForeignWordsOf(const JournalWords& words) {
  const uint64_t begin = words.LineOffset(kTableBegin) / kLineBytes;
  return {begin, begin + kTableLines, kOursOfTable};
}

uint32_t SeedOf(uint64_t session) { return pmem::JournalSeed(kPoolSeed, session); }

// What a worker has flushed but not fenced: for each word the last store before the flush.
struct Flushed {
  uint64_t line;
  std::array<uint64_t, JournalWords::kWordsOfLine> stores;
  std::array<std::byte, kLineBytes> content;
};

// For a replay that is not interrupted: nothing needs to be recorded.
class QuietDisk final : public pmem::JournalStorage, public pmem::FileFence, public pmem::Tracer {
 public:
  QuietDisk(std::span<const std::byte> journal, Fault fault) : journal_(journal), fault_(fault) {}
  uint64_t bytes() const override { return journal_.size(); }
  absl::Status Read(uint64_t offset, std::span<std::byte> to) override {
    std::memcpy(to.data(), journal_.data() + offset, to.size());
    return absl::OkStatus();
  }
  absl::Status Write(uint64_t, std::span<const std::byte>) override { return absl::OkStatus(); }
  void Note(const void*) override {}
  bool Fence() override { return true; }
  bool Revoke(const void*, uint64_t) override { return true; }
  void OnStore(const void*, size_t, bool) override {}
  void OnFlush(const void*) override {}
  void OnFence() override {}
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view name) override {
    const bool asked = fault_.kind == Fault::Kind::kAsk && name == fault_.where;
    happened |= asked;
    return asked;
  }

  bool happened = false;

 private:
  const std::span<const std::byte> journal_;
  const Fault fault_;
};

class Scenario {
 public:
  Scenario(Fault fault, uint64_t run, unsigned workers, Copied copied = Copied::kAtTheFence)
      : fault_(fault),
        copied_(copied),
        random_("the journal", run),
        words_(LinesInUse()),
        memory_(kPoolBytes),
        shadow_(kPoolBytes),
        image_(kPoolBytes),
        successor_(kPoolBytes),
        flushed_(workers),
        later_(workers) {
    journal_.resize(pmem::kJournalSegmentsBegin + pmem::kJournalSegments * kSegmentBytes);
  }

  JournalOutcome Run(unsigned runs, unsigned steps) {
    Workers workers(static_cast<unsigned>(flushed_.size()));
    for (unsigned run = 0; run < runs && !seen_.problem; ++run) {
      Begin(/*background=*/false);
      for (unsigned i = 0; i < steps && !seen_.problem; ++i) {
        const uint64_t worker = random_.Below(flushed_.size());
        workers.Do(worker, [&] { Step(worker, random_); });
      }
      End();
    }
    return seen_;
  }

  JournalOutcome RunThreads(unsigned runs, unsigned steps) {
    for (unsigned run = 0; run < runs && !seen_.problem; ++run) {
      Begin(/*background=*/true);
      threaded_ = true;
      std::vector<std::thread> threads;
      for (uint64_t worker = 0; worker < flushed_.size(); ++worker) {
        threads.emplace_back(
            [this, worker, steps, random = Random("hand", random_.Next())]() mutable {
              for (unsigned i = 0; i < steps; ++i) Step(worker, random);
            });
      }
      for (std::thread& thread : threads) thread.join();
      threaded_ = false;
      End();
    }
    return seen_;
  }

 private:
  // --- runs ---

  void Begin(bool background) {
    disk_ = std::make_unique<ModelDisk>(memory_.span(), std::move(journal_), fault_);
    if (session_ > 0) Recover();
    for (const uint64_t mark : {kCheckpointMark, kGroupMark}) {
      disk_->StoreDurably(mark, pmem::EncodeMark(1));
    }
    std::memcpy(shadow_.span().data(), memory_.span().data(), kPoolBytes);
    ++session_;
    storage_ = disk_->storage();
    Journal::Options options;
    options.storage = storage_.get();
    options.pool = disk_.get();
    options.base =
        reinterpret_cast<char*>((copied_ == Copied::kAtTheFlush ? shadow_ : memory_).span().data());
    options.pool_bytes = kPoolBytes;
    options.segment_bytes = kSegmentBytes;
    options.crc_seed = SeedOf(session_);
    options.foreign = ForeignWordsOf(words_);
    options.checkpoint_mark = reinterpret_cast<pmem::Word*>(options.base + kCheckpointMark);
    options.group_mark = reinterpret_cast<pmem::Word*>(options.base + kGroupMark);
    options.checkpoint_bytes_per_second = uint64_t{1} << 40;
    options.background = background;
    options.on_failure = [this](const std::string& what) { Note(what); };
    options.tracer = copied_ == Copied::kAtTheFlush ? nullptr : disk_.get();
    log_ = std::make_unique<Journal>(options);
    foreign_.fill(false);
    for (auto& flushed : flushed_) flushed.clear();
    for (auto& later : later_) later.clear();
    successors_seen_ = 0;
    InheritPages();
    disk_->on_moment = [this](Moment moment) { Reach(moment); };
  }

  // Replays the image that this run began with; the replay is interrupted like anything else.
  void Recover() {
    if (auto problem = ReplayOn(*disk_, memory_, 0)) return Note(*problem);
    (void)disk_->WriteBackAll();
    words_.Adopt(memory_.span());
  }

  // From a process that is gone: the kernel could not write its last stores back.
  void InheritPages() {
    if (copied_ == Copied::kAtTheFlush) return;
    for (unsigned i = 0; i < 20; ++i) StoreSome(random_);
    disk_->GiveUpPages();
  }

  void End() {
    const JournalUse use = log_->use();
    log_.reset();
    disk_->on_moment = nullptr;
    seen_.checkpoints += use.checkpoints;
    seen_.pool_syncs += use.pool_syncs;
    seen_.times_around += use.written_bytes / (pmem::kJournalSegments * kSegmentBytes);
    seen_.fault_happened |= disk_->fault_happened();
    seen_.crash_points.insert(disk_->crash_points().begin(), disk_->crash_points().end());
    std::memcpy(memory_.span().data(), successor_.pool.span().data(), kPoolBytes);
    journal_ = successor_.journal;
    words_ = std::move(*words_of_successor_);
  }

  // --- steps ---

  void Step(uint64_t worker, Random& random) {
    if (Ended()) return;
    if (!threaded_) current_ = worker;
    const uint64_t kind = random.Below(100);
    if (kind < 40) {
      StoreSome(random);
    } else if (kind < 45) {
      CommitSome(worker, random);
    } else if (kind < 70) {
      FlushSome(worker, random, 1 + random.Below(6));
    } else if (kind < 90) {
      Fence(worker);
    } else if (kind < 93) {
      FlushSome(worker, random, 60 + random.Below(50));
      Fence(worker);
    } else if (kind < 94) {
      // More lines than the journal takes at once. A fence meanwhile, of the same thread, would
      // take words along whose lines are not yet durable.
      for (uint64_t line = 0; line < words_.lines(); ++line) Flush(worker, line);
      if (!threaded_ && later_[worker].empty()) meanwhile_ = &random;
      Fence(worker);
      if (!threaded_) meanwhile_ = nullptr;
    } else if (kind < 96) {
      if (!threaded_) Checkpoint(random);
    } else {
      ChangeOwner(threaded_ ? worker : random.Below(kRegions), random);
    }
  }

  void Checkpoint(Random& random) {
    meanwhile_ = &random;
    if (!log_->Checkpoint()) Note("a checkpoint failed");
    meanwhile_ = nullptr;
  }

  // During a checkpoint the other workers continue as long as there is certainly room.
  void GoOnMeanwhile() {
    if (meanwhile_ == nullptr || log_->use().used_bytes > kSegmentBytes) return;
    Random& random = *std::exchange(meanwhile_, nullptr);
    StoreSome(random);
    FlushSome(current_, random, 4);
    if (random.OneIn(2)) Fence(current_);
    meanwhile_ = &random;
  }

  bool IsForeign(uint64_t line, uint64_t word) const {
    if (line >= kTableBegin) return (kOursOfTable >> word & 1) == 0;
    return line >= kScattered && foreign_[(line - kScattered) / kRegionLines];
  }

  // A worker never flushes space that another thread may free meanwhile.
  static bool IsOfOtherRegion(uint64_t worker, uint64_t line) {
    return line >= kScattered && line < kTableBegin && (line - kScattered) / kRegionLines != worker;
  }

  void StoreSome(Random& random) {
    const uint64_t line = random.Below(words_.lines());
    for (uint64_t i = 1 + random.Below(4); i > 0; --i) {
      const auto lock = disk_->Hold();
      const uint64_t word = line * JournalWords::kWordsOfLine + random.Below(8);
      if (IsCommitWord(word)) continue;
      const uint64_t value = words_.Next(word);
      if (IsForeign(line, word % 8)) {
        disk_->StoreDurably(words_.Offset(word), value);
        words_.Raise(word, words_.Last(word));
      } else {
        disk_->Store(words_.Offset(word), value);
      }
    }
  }

  // The first word of some lines is stored by StoreLater, by one worker each.
  static constexpr uint64_t kCommitLines = 16;
  static bool IsCommitWord(uint64_t word) {
    const uint64_t line = word / JournalWords::kWordsOfLine;
    return word % JournalWords::kWordsOfLine == 0 && line < kScattered &&
           line % kCommitLines < kRegions;
  }

  // Behind what the worker has flushed so far, and its commit words before.
  void CommitSome(uint64_t worker, Random& random) {
    if (copied_ == Copied::kAtTheFlush) return;
    for (uint64_t i = 1 + random.Below(3); i > 0; --i) {
      const uint64_t line = random.Below(kScattered / kCommitLines) * kCommitLines + worker;
      const uint64_t word = line * JournalWords::kWordsOfLine;
      uint64_t value;
      {
        const auto lock = disk_->Hold();
        JournalWords::Made made;
        value = words_.NextBehind(word, NotedBy(worker), &made);
        later_[worker].push_back(made);
      }
      std::byte* at = memory_.span().data() + words_.Offset(word);
      if (!log_->StoreLater(reinterpret_cast<uint64_t*>(at), value)) Note("a fence failed");
      if (random.OneIn(2)) FlushSome(worker, random, 2);
    }
  }

  std::vector<JournalWords::Made> NotedBy(uint64_t worker) const {
    std::vector<JournalWords::Made> noted = later_[worker];
    for (const Flushed& flushed : flushed_[worker]) {
      if (flushed.line >= kScattered) continue;  // it may be freed
      for (uint64_t i = 0; i < flushed.stores.size(); ++i) {
        noted.push_back({flushed.line * flushed.stores.size() + i, flushed.stores[i]});
      }
    }
    return noted;
  }

  void FlushSome(uint64_t worker, Random& random, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) Flush(worker, random.Below(words_.lines()));
  }

  void Flush(uint64_t worker, uint64_t line) {
    {
      const auto lock = disk_->Hold();
      if (line < kTableBegin && IsForeign(line, 0)) return;
      if (threaded_ && IsOfOtherRegion(worker, line)) return;
      Flushed flushed{line, {}, {}};
      for (uint64_t i = 0; i < flushed.stores.size(); ++i) {
        const uint64_t word = line * flushed.stores.size() + i;
        flushed.stores[i] = IsForeign(line, i) ? 0 : words_.Last(word);
      }
      std::memcpy(flushed.content.data(), &memory_.span()[words_.LineOffset(line)], kLineBytes);
      flushed_[worker].push_back(flushed);
    }
    log_->Note(reinterpret_cast<const char*>(options_base() + words_.LineOffset(line)));
  }

  const std::byte* options_base() const {
    return (copied_ == Copied::kAtTheFlush ? shadow_ : memory_).span().data();
  }

  void Fence(uint64_t worker) {
    disk_->OnFence();
    if (copied_ == Copied::kAtTheFlush) {
      for (const Flushed& flushed : flushed_[worker]) {
        std::memcpy(&shadow_.span()[words_.LineOffset(flushed.line)], flushed.content.data(),
                    kLineBytes);
      }
    }
    std::vector<Flushed> mine;
    std::vector<JournalWords::Made> later;
    {
      const auto lock = disk_->Hold();
      mine = std::exchange(flushed_[worker], {});
      later = std::exchange(later_[worker], {});
    }
    if (!log_->Fence()) return Note("a fence failed");
    const auto lock = disk_->Hold();
    for (const JournalWords::Made& made : later) {
      words_.NoteMade(made);
      words_.Raise(made.word, made.store);
    }
    for (const Flushed& flushed : mine) {
      // Freed meanwhile: nothing is promised about it.
      if (flushed.line < kTableBegin && IsForeign(flushed.line, 0)) continue;
      for (uint64_t i = 0; i < flushed.stores.size(); ++i) {
        words_.Raise(flushed.line * flushed.stores.size() + i, flushed.stores[i]);
      }
    }
  }

  // Space is freed to libpmemobj, or allocated from it again.
  void ChangeOwner(uint64_t region, Random& random) {
    const uint64_t first = kScattered + region * kRegionLines;
    {
      const auto lock = disk_->Hold();
      if (std::exchange(foreign_[region], false)) return;
      ForgetLines(first);
    }
    const std::byte* begin = options_base() + words_.LineOffset(first);
    if (!log_->Revoke(begin, kRegionLines * kLineBytes)) return Note("a revocation failed");
    const auto lock = disk_->Hold();
    foreign_[region] = true;
    for (uint64_t i = random.Below(8); i > 0; --i) {
      const uint64_t word = (first + random.Below(kRegionLines)) * 8 + random.Below(8);
      disk_->StoreDurably(words_.Offset(word), words_.Next(word));
      words_.Raise(word, words_.Last(word));
    }
  }

  void ForgetLines(uint64_t first) {
    for (uint64_t word = first * 8; word < (first + kRegionLines) * 8; ++word) words_.Forget(word);
    for (auto& flushed : flushed_) {
      std::erase_if(flushed, [&](const Flushed& f) { return f.line - first < kRegionLines; });
    }
  }

  // --- images ---

  // The disk is locked.
  void Reach(Moment moment) {
    if (seen_.problem) return;
    const uint64_t images = threaded_ ? Thinned(moment) : moment == Moment::kFence ? 1 : 4;
    for (uint64_t i = 0; i < images && !seen_.problem; ++i) TryImage(moment);
    if (!threaded_ && !seen_.problem) {
      // A group is written without the lock: other threads store meanwhile.
      if (moment == Moment::kGroup && random_.OneIn(2)) StoreSome(random_);
      if (moment != Moment::kGroup && moment != Moment::kFence) GoOnMeanwhile();
    }
  }

  uint64_t Thinned(Moment moment) { return moment != Moment::kFence && random_.OneIn(4) ? 1 : 0; }

  void TryImage(Moment moment) {
    ++seen_.images;
    ++seen_.at[static_cast<size_t>(moment)];
    disk_->Draw(random_, &image_);
    // Picks a power cut to continue from, each with the same probability.
    if (random_.OneIn(++successors_seen_)) {
      std::memcpy(successor_.pool.span().data(), image_.pool.span().data(), kPoolBytes);
      successor_.journal = image_.journal;
      words_of_successor_ = words_;
    }
    if (auto problem = random_.OneIn(32) ? ReplayAndCut() : ReplayQuietly()) {
      Note(absl::StrCat(*problem, "; at a moment ", static_cast<int>(moment), " of image ",
                        seen_.images));
    }
  }

  std::optional<std::string> ReplayQuietly() {
    QuietDisk disk(image_.journal, fault_);
    auto problem = Replay(disk, disk, disk, image_.pool);
    seen_.fault_happened |= disk.happened;
    return problem;
  }

  std::optional<std::string> ReplayAndCut() {
    ModelDisk disk(image_.pool.span(), image_.journal, fault_);
    auto problem = ReplayOn(disk, image_.pool, /*cuts=*/2);
    seen_.crash_points.insert(disk.crash_points().begin(), disk.crash_points().end());
    return problem;
  }

  // `cuts`: how many times in turn the replay is interrupted.
  std::optional<std::string> ReplayOn(ModelDisk& disk, const ArenaMemory& memory, unsigned cuts) {
    std::optional<std::string> problem;
    if (cuts > 0) {
      disk.on_moment = [&, positions = uint64_t{0}](Moment) mutable {
        if (!problem && random_.OneIn(++positions < 8 ? 8 : 64)) {
          problem = ReplayOfCut(disk, cuts - 1);
        }
      };
    }
    auto outcome = Replay(*disk.storage(), disk, disk, memory);
    disk.on_moment = nullptr;
    return problem ? problem : outcome;
  }

  std::optional<std::string> Replay(pmem::JournalStorage& storage, pmem::FileFence& fence,
                                    pmem::Tracer& tracer, const ArenaMemory& memory) {
    pmem::Medium::Options options;
    options.mode = pmem::FlushMode::kFile;
    options.file_fence = &fence;
    options.tracer = &tracer;
    pmem::Medium medium(options);
    pmem::JournalReader reader(storage, kSegmentBytes, SeedOf(session_), &tracer);
    absl::Status status = reader.Find();
    if (status.ok()) status = CheckMoment(MarksOf(memory), reader);
    pmem::JournalReplay replay;
    if (status.ok()) {
      status = pmem::ReplayJournal(reader, medium, reinterpret_cast<char*>(memory.span().data()),
                                   kPoolBytes, ForeignWordsOf(words_), &replay);
    }
    if (!status.ok()) return absl::StrCat("it cannot be replayed: ", status.ToString());
    return words_.Check(memory.span());
  }

  static pmem::JournalMarks MarksOf(const ArenaMemory& memory) {
    const auto mark = [&](uint64_t offset) {
      uint64_t word;
      std::memcpy(&word, &memory.span()[offset], sizeof word);
      return pmem::DecodeMark(word).value_or(UINT64_MAX);
    };
    return {mark(kCheckpointMark), mark(kGroupMark)};
  }

  std::optional<std::string> ReplayOfCut(const ModelDisk& disk, unsigned cuts) {
    ++seen_.replays_cut;
    DiskImage image(kPoolBytes);
    disk.Draw(random_, &image);
    ModelDisk again(image.pool.span(), image.journal, fault_);
    return ReplayOn(again, image.pool, cuts);
  }

  bool Ended() const {
    const auto lock = disk_->Hold();
    return seen_.problem.has_value();
  }

  void Note(const std::string& problem) {
    const auto lock = disk_->Hold();
    if (!seen_.problem) seen_.problem = problem;
  }

  const Fault fault_;
  const Copied copied_;
  Random random_;
  JournalWords words_;
  std::optional<JournalWords> words_of_successor_;
  ArenaMemory memory_;
  ArenaMemory shadow_;  // the copies made by a journal that copies at the flush
  std::vector<std::byte> journal_;
  DiskImage image_;
  DiskImage successor_;
  uint64_t successors_seen_ = 0;
  uint64_t session_ = 0;
  std::unique_ptr<ModelDisk> disk_;
  std::shared_ptr<pmem::JournalStorage> storage_;
  std::unique_ptr<Journal> log_;
  std::vector<std::vector<Flushed>> flushed_;           // of each worker
  std::vector<std::vector<JournalWords::Made>> later_;  // the same
  std::array<bool, kRegions> foreign_{};
  uint64_t current_ = 0;  // worker
  Random* meanwhile_ = nullptr;
  bool threaded_ = false;
  JournalOutcome seen_;
};

void Add(JournalOutcome&& seen, JournalOutcome* all) {
  all->images += seen.images;
  all->replays_cut += seen.replays_cut;
  for (size_t i = 0; i < kMoments; ++i) all->at[i] += seen.at[i];
  all->checkpoints += seen.checkpoints;
  all->pool_syncs += seen.pool_syncs;
  all->times_around += seen.times_around;
  all->crash_points.merge(seen.crash_points);
  all->fault_happened |= seen.fault_happened;
  all->problem = std::move(seen.problem);
}

}  // namespace

JournalOutcome RunJournalScenario(Fault fault, uint64_t runs, Copied copied) {
  JournalOutcome all;
  for (uint64_t run = 0; run < runs && !all.problem; ++run) {
    Add(Scenario(fault, run, 3, copied).Run(/*runs=*/5, /*steps=*/400), &all);
  }
  return all;
}

JournalOutcome RunJournalScenarioOfThreads(Fault fault, uint64_t runs) {
  JournalOutcome all;
  for (uint64_t run = 0; run < runs && !all.problem; ++run) {
    Add(Scenario(fault, 1000 + run, kRegions).RunThreads(/*runs=*/3, /*steps=*/1500), &all);
  }
  return all;
}

}  // namespace lodgekv::test
