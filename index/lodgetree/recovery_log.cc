// Recovery's logs: the entries that no leaf has yet, the newest of each key, replayed. Tasks read
// logs and put what they find in order of keys; other tasks take what belongs to a range of nodes
// from all of them. So from there on no two tasks meet in a node.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "index/lodgetree/recovery.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

namespace {

// Each task has a list of its own, of which others look for a part: so there are not too many.
constexpr size_t kLogsPerTask = 256;
constexpr size_t kMostLogTasks = 512;
constexpr size_t kNodesPerPart = 256;
constexpr size_t kMostParts = 1024;

uint64_t SizeOf(const RecordView& record) {
  return RecordBytes(record.key.size(), record.value.size(), record.expiry_unix_ms != 0);
}

}  // namespace

template <class C>
absl::Status LodgeTree<C>::Recovery::ReplayLogs() {
  absl::Status status = ReadLogs();
  if (status.ok()) status = ExplainUnreadable();
  if (status.ok()) status = ChooseWinners();
  if (status.ok()) status = KeepWinners();
  if (status.ok()) status = Replay();
  if (status.ok()) FinishSpace();
  return status;
}

// --- what the logs hold ---

template <class C>
bool LodgeTree<C>::Recovery::KeyOfEntry(const FoundEntry& entry, LogPart* part, Key* key) {
  if constexpr (C::kRecords) {
    if (C::IsRecord(entry.pair.value)) {
      RecordView view;
      const pmem::Offset record = C::RecordOf(entry.pair.value);
      if (!VerifyRecord(pool_, parts_.slab, record, &view)) return false;
      const bool any = pool_.medium().Canary("lodgetree.recovery.any_record");
      if (view.crc != entry.record_crc && !any) return false;
      if (entry.in_last_group) settler_.Settle(pool_.At<char>(record), SizeOf(view));
      *key = C::MakeKey(view.key);
      return true;
    }
    auto& text = part->inline_keys.emplace_back();
    *key = C::MakeKey(parts_.codec.KeyText(entry.pair, text.bytes));
    return true;
  } else {
    *key = C::KeyOfWord(entry.pair.key);
    return true;
  }
}

template <class C>
uint64_t LodgeTree<C>::Recovery::WatermarkFor(const Key& key) const {
  uint64_t snapshot;
  const Node* node = parts_.tree.Descend(key, &snapshot);
  return media::WatermarkOf(parts_.access.LeafAt(node, node->Search(key).leaf));
}

template <class C>
absl::Status LodgeTree<C>::Recovery::ReadOneLog(uint32_t log, LogPart* part) {
  std::vector<FoundEntry> entries;
  std::string problem;
  if (!parts_.log.ReadLog(logs_[log], &entries, &problem)) return absl::DataLossError(problem);
  settler_.Settle(
      pool_.At<char>(logs_[log].offset),
      sizeof(lodgekv::media::LogHeader) + entries.size() * sizeof(lodgekv::media::LogEntry));
  for (const FoundEntry& entry : entries) {
    if (entry.op == LogOp::kAppliedIndex) {
      part->applied.push_back({entry, log});
      continue;
    }
    Key key;
    if (!KeyOfEntry(entry, part, &key)) {
      part->unreadable.push_back({entry, log});
      if (pool_.medium().Canary("lodgetree.recovery.stops_at_hole")) break;
    } else if (entry.sequence > WatermarkFor(key) ||
               pool_.medium().Canary("lodgetree.recovery.no_watermark")) {
      part->candidates.push_back({entry, key, log});
    }
  }
  return absl::OkStatus();
}

template <class C>
absl::Status LodgeTree<C>::Recovery::ReadLogs() {
  logs_ = parts_.log.FindLogs(context_.recovery_threads);
  log_parts_.resize(PartsOf(logs_.size(), kLogsPerTask, kMostLogTasks));
  const bool by_log = pool_.medium().Canary("lodgetree.recovery.order_by_log");
  PhaseProgress progress(context_.progress, "logs", logs_.size());
  return Parallel(log_parts_.size(), [&](size_t task) {
    const Part logs = Part::Of(logs_.size(), log_parts_.size(), task);
    LogPart& part = log_parts_[task];
    for (size_t log = logs.begin; log < logs.end; ++log) {
      const absl::Status status = ReadOneLog(static_cast<uint32_t>(log), &part);
      if (!status.ok()) return status;
    }
    settler_.EndThread();
    std::sort(part.candidates.begin(), part.candidates.end(),
              [=](const Candidate& a, const Candidate& b) { return Precedes(a, b, by_log); });
    progress.Add(logs.end - logs.begin);
    return absl::OkStatus();
  });
}

// --- entries without a whole record ---

// Dead: a leaf that may hold the key has a higher watermark. (Superseded ones are told by the
// caller.)
template <class C>
bool LodgeTree<C>::Recovery::IsDead(const FoundEntry& entry) const {
  if constexpr (C::kRecords) {
    char text[8];
    StoreBigEndian(entry.pair.key, text);
    size_t length = 8;
    while (length > 0 && text[length - 1] == 0) --length;
    // The key begins so: it is nowhere to the left of the leaf that has the shortest such key.
    const Key least = C::MakeKey({text, length});
    uint64_t snapshot;
    const Node* first = parts_.tree.Descend(least, &snapshot);
    auto node = std::lower_bound(
        nodes_.begin(), nodes_.end(), first->low(),
        [](const Node* a, Separator low) { return C::Compare(a->low(), low) < 0; });
    for (unsigned leaf = first->Search(least).leaf; node != nodes_.end(); ++node, leaf = 0) {
      for (; leaf < (*node)->index_count; ++leaf) {
        const Separator low = (*node)->LowOf(leaf);
        if (C::CompareToKey(low, least) > 0 && C::WordOf(low, 0) > entry.pair.key) return false;
        if (media::WatermarkOf(parts_.access.LeafAt(*node, leaf)) >= entry.sequence) return true;
      }
    }
  }
  return false;
}

// The canary believes leaves and newer entries alone.
template <class C>
uint64_t LodgeTree<C>::Recovery::FencedBelow() const {
  if (pool_.medium().Canary("lodgetree.recovery.no_horizon")) return UINT64_MAX;
  return parts_.horizon.fenced_below();
}

// An entry without a whole record is dead, its record given back: then its number is below
// kFencedBelow. Or its fence group was never fenced: then the whole group was not acknowledged, and
// goes. No leaf and no other entry can tell these apart, since other threads may have written newer
// numbers meanwhile.
template <class C>
absl::Status LodgeTree<C>::Recovery::ExplainUnreadable() {
  tail_dropped_.assign(logs_.size(), 0);
  const bool none = std::all_of(log_parts_.begin(), log_parts_.end(),
                                [](const LogPart& part) { return part.unreadable.empty(); });
  if (none) return absl::OkStatus();
  const size_t shares = std::max(1u, context_.recovery_threads);
  absl::Status status = Parallel(shares, [&](size_t share) { return ExplainShare(share, shares); });
  if (status.ok()) status = DropGroups();
  return status;
}

// Those whose key words are this share's.
template <class C>
absl::Status LodgeTree<C>::Recovery::ExplainShare(size_t share, size_t shares) {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15ull;
  const auto mine = [&](const FoundEntry& entry) {
    return (entry.pair.key * kMix >> 32) % shares == share;
  };
  // The newest entry of each {key word, hash}: it supersedes the older ones.
  std::unordered_map<uint64_t, uint64_t> newest;
  const auto tag = [&](const FoundEntry& entry) {
    return entry.pair.key * kMix + parts_.codec.HashOf(entry.pair);
  };
  for (const LogPart& part : log_parts_) {
    for (const auto& [entry, log] : part.unreadable) {
      if (!mine(entry)) continue;
      uint64_t& sequence = newest[tag(entry)];
      sequence = std::max(sequence, entry.sequence);
    }
  }
  for (const LogPart& part : log_parts_) {
    for (const Candidate& candidate : part.candidates) {
      if (!mine(candidate.entry)) continue;
      const auto found = newest.find(tag(candidate.entry));
      if (found != newest.end()) found->second = std::max(found->second, candidate.entry.sequence);
    }
  }
  const uint64_t fenced_below = FencedBelow();
  uint64_t dropped = 0;
  for (const LogPart& part : log_parts_) {
    for (const auto& [entry, log] : part.unreadable) {
      if (!mine(entry)) continue;
      const bool fenced = entry.sequence < fenced_below;
      if (fenced && (newest[tag(entry)] > entry.sequence || IsDead(entry))) continue;
      if (fenced || !entry.in_last_group || pool_.was_clean()) {
        return Damaged("a log entry whose record is damaged, in the log", logs_[log].offset);
      }
      std::atomic_ref(tail_dropped_[log]).store(1, std::memory_order_relaxed);
      ++dropped;
    }
  }
  std::atomic_ref(report_.log_entries_dropped).fetch_add(dropped, std::memory_order_relaxed);
  return absl::OkStatus();
}

// The rest of each group of which an entry was dropped.
template <class C>
absl::Status LodgeTree<C>::Recovery::DropGroups() {
  const auto dropped = [this](const auto& logged) {
    return tail_dropped_[logged.log] != 0 && logged.entry.in_last_group;
  };
  const absl::Status status = Parallel(log_parts_.size(), [&](size_t task) {
    LogPart& part = log_parts_[task];
    std::atomic_ref(report_.log_entries_dropped)
        .fetch_add(std::erase_if(part.candidates, dropped), std::memory_order_relaxed);
    std::erase_if(part.applied, dropped);
    return absl::OkStatus();
  });
  ForgetDroppedGroups();
  return status;
}

// What was decided now must be decided after any later crash too. Then the entry that tells it may
// be dead (its key written again, its leaf drained), and the rest of its group would come back: so
// the group's first entry is made unreadable, for good.
template <class C>
void LodgeTree<C>::Recovery::ForgetDroppedGroups() {
  pmem::Medium& medium = pool_.medium();
  std::vector<FoundEntry> entries;
  std::string problem;
  for (size_t log = 0; log < logs_.size(); ++log) {
    if (tail_dropped_[log] == 0 || !parts_.log.ReadLog(logs_[log], &entries, &problem)) continue;
    size_t first = 0;
    while (!entries[first].in_last_group) ++first;
    auto* entry =
        pool_.At<lodgekv::media::LogEntry>(logs_[log].offset + sizeof(lodgekv::media::LogHeader)) +
        first;
    medium.Store(entry->checksums, ~entry->checksums.Load());
    medium.FlushLine(entry);
  }
  LODGEKV_CRASH_POINT(medium, "lodgetree.recovery.1");
  medium.Fence();
}

// --- the newest entry of each key ---

template <class C>
bool LodgeTree<C>::Recovery::AreOfOneKey(const Candidate& a, const Candidate& b) {
  if (a.key.word != b.key.word) return false;
  if constexpr (C::kRecords) return a.key.text == b.key.text;
  return true;
}

// By key, the newest first. Words decide but for ties: texts lie in their records.
template <class C>
bool LodgeTree<C>::Recovery::Precedes(const Candidate& a, const Candidate& b, bool by_log) {
  if (a.key.word != b.key.word) return a.key.word < b.key.word;
  if constexpr (C::kRecords) {
    const int order = a.key.text.compare(b.key.text);
    if (order != 0) return order < 0;
  }
  if (by_log && a.log != b.log) return a.log > b.log;
  return a.entry.sequence > b.entry.sequence;
}

template <class C>
absl::Status LodgeTree<C>::Recovery::ChooseWinners() {
  winners_.resize(PartsOf(nodes_.size(), kNodesPerPart, kMostParts));
  const absl::Status status = Parallel(winners_.size(), [&](size_t task) {
    winners_[task] = WinnersOf(Part::Of(nodes_.size(), winners_.size(), task));
    return absl::OkStatus();
  });
  // Their texts are still needed.
  for (LogPart& part : log_parts_) std::vector<Candidate>().swap(part.candidates);
  return status;
}

// Among what all tasks have read for these nodes.
template <class C>
std::vector<typename LodgeTree<C>::Recovery::Candidate> LodgeTree<C>::Recovery::WinnersOf(
    Part nodes) const {
  const bool by_log = pool_.medium().Canary("lodgetree.recovery.order_by_log");
  const auto border = [this](const std::vector<Candidate>& candidates, size_t node) {
    if (node == 0) return candidates.begin();
    if (node == nodes_.size()) return candidates.end();
    return std::lower_bound(candidates.begin(), candidates.end(), nodes_[node]->low(),
                            [](const Candidate& candidate, Separator low) {
                              return C::CompareToKey(low, candidate.key) > 0;
                            });
  };
  std::vector<Candidate> winners;
  for (const LogPart& part : log_parts_) {
    winners.insert(winners.end(), border(part.candidates, nodes.begin),
                   border(part.candidates, nodes.end));
  }
  std::sort(winners.begin(), winners.end(),
            [=](const Candidate& a, const Candidate& b) { return Precedes(a, b, by_log); });
  winners.erase(std::unique(winners.begin(), winners.end(), AreOfOneKey), winners.end());
  return winners;
}

template <class C>
absl::Status LodgeTree<C>::Recovery::MarkWinner(const Candidate& winner) {
  if constexpr (C::kRecords) {
    const Pair pair = winner.entry.pair;
    if (!C::IsRecord(pair.value)) return absl::OkStatus();
    const pmem::Offset record = C::RecordOf(pair.value);
    const auto result = parts_.slab.Mark(record);
    if (result == pmem::UnitArena::MarkResult::kMarked) return absl::OkStatus();
    // A leaf may have it already: drained, but the watermark was not durable.
    uint64_t snapshot;
    const Node* node = parts_.tree.Descend(winner.key, &snapshot);
    const unsigned leaf = node->Search(winner.key).leaf;
    const int slot = parts_.access.FindPairInLeaf(node, leaf, pair);
    if (result == pmem::UnitArena::MarkResult::kTwice && slot >= 0 &&
        SlotPair(parts_.access.LeafAt(node, leaf), static_cast<unsigned>(slot)).value ==
            pair.value) {
      return absl::OkStatus();
    }
    return Damaged("a log entry whose record is another's", logs_[winner.log].offset);
  }
  return absl::OkStatus();
}

template <class C>
absl::Status LodgeTree<C>::Recovery::KeepWinners() {
  valid_.assign(logs_.size(), 0);
  absl::Status status = Parallel(winners_.size(), [&](size_t task) {
    for (const Candidate& winner : winners_[task]) {
      std::atomic_ref(valid_[winner.log]).fetch_add(1, std::memory_order_relaxed);
      const absl::Status marked = MarkWinner(winner);
      if (!marked.ok()) return marked;
    }
    return absl::OkStatus();
  });
  if (status.ok()) status = KeepLogs();
  if (!status.ok()) return status;
  if constexpr (C::kRecords) {
    // What is not reached is given back from here on, and what was not fenced is forgotten.
    if (!parts_.horizon.Raise(pool_.PeekSequence())) {
      return absl::UnavailableError("a sync of the medium has failed");
    }
  }
  // Little is left for fresh chunks: those of the log, and what replay takes.
  if (pool_.tight()) FinishSpace();
  parts_.log.FinishAdopt();
  for (const auto& winners : winners_) report_.log_entries_replayed += winners.size();
  return absl::OkStatus();
}

// Null: the pool's own word is newer, or there is none.
template <class C>
const typename LodgeTree<C>::Recovery::Logged* LodgeTree<C>::Recovery::NewestAppliedIndex() const {
  const Logged* newest = nullptr;
  for (const LogPart& part : log_parts_) {
    for (const Logged& applied : part.applied) {
      if (applied.entry.pair.key < pool_.applied_index()) continue;
      if (newest == nullptr || newest->entry.pair.key < applied.entry.pair.key) newest = &applied;
    }
  }
  return newest;
}

// Logs with a winner, or with the applied index.
template <class C>
absl::Status LodgeTree<C>::Recovery::KeepLogs() {
  constexpr size_t kPerTask = 65536;
  parts_.applied.Restore(pool_.applied_index(), AppendLog::kNoLog);
  const Logged* applied = NewestAppliedIndex();
  if (applied != nullptr) ++valid_[applied->log];
  log_ids_.assign(logs_.size(), AppendLog::kNoLog);
  const auto kept = static_cast<uint32_t>(logs_.size()) -
                    static_cast<uint32_t>(std::count(valid_.begin(), valid_.end(), 0u));
  uint32_t id = parts_.log.TakeIds(kept);
  if (id == AppendLog::kNoLog) return Damaged("more logs than it has room for", 0);
  for (size_t log = 0; log < logs_.size(); ++log) {
    if (valid_[log] != 0) log_ids_[log] = id++;
  }
  const size_t tasks = PartsOf(logs_.size(), kPerTask);
  const bool uncounted = pool_.medium().Canary("lodgetree.recovery.not_counted");
  const absl::Status status = Parallel(tasks, [&](size_t task) {
    const Part part = Part::Of(logs_.size(), tasks, task);
    for (size_t log = part.begin; log < part.end; ++log) {
      if (valid_[log] == 0) continue;
      parts_.log.Keep(log_ids_[log], logs_[log], uncounted ? 0 : valid_[log]);
    }
    return absl::OkStatus();
  });
  if (applied != nullptr) {
    parts_.applied.Restore(applied->entry.pair.key, log_ids_[applied->log]);
  }
  return status;
}

// --- replay ---

template <class C>
void LodgeTree<C>::Recovery::FinishSpace() {
  parts_.leaves.FinishMark();
  parts_.slab.FinishMark();
}

template <class C>
absl::Status LodgeTree<C>::Recovery::Replay() {
  PhaseProgress progress(context_.progress, "log", report_.log_entries_replayed);
  const absl::Status status = Parallel(winners_.size(), [&](size_t task) {
    const uint64_t entries = winners_[task].size();
    const absl::Status replayed = ReplayPart(std::move(winners_[task]));
    progress.Add(entries);
    return replayed;
  });
  report_.replay_threads = static_cast<unsigned>(replayers_.size());
  return status;
}

// False: there is no leaf for it, and it is not applied.
template <class C>
bool LodgeTree<C>::Recovery::Apply(PendingOp<C>& pending, Worker<C>& worker) {
  NodeWriter<C> nodes(parts_, worker);
  nodes.fenced = true;
  nodes.replaying = true;
  nodes.Lock(pending.key);
  nodes.Apply(pending);
  nodes.held.UnlockAll();
  return !nodes.stuck;
}

// In order of numbers: so a drain in between finds every older pair of its node applied, and its
// watermark is true.
template <class C>
absl::Status LodgeTree<C>::Recovery::ReplayPart(std::vector<Candidate> winners) {
  const bool by_key = pool_.medium().Canary("lodgetree.recovery.replay_by_key");
  std::sort(winners.begin(), winners.end(), [by_key](const Candidate& a, const Candidate& b) {
    return by_key ? a.key.word < b.key.word : a.entry.sequence < b.entry.sequence;
  });
  Worker<C>& worker = parts_.CurrentWorker();
  WriteResult result;
  for (const Candidate& winner : winners) {
    PendingOp<C> pending;
    pending.result = &result;
    pending.key = winner.key;
    pending.staged.pair = winner.entry.pair;
    pending.tombstone = winner.entry.op == LogOp::kDelete;
    pending.sequence = winner.entry.sequence;
    pending.log = log_ids_[winner.log];
    const bool finding = pool_.finding_space();
    bool applied = Apply(pending, worker);
    if (!applied && finding) {
      FinishSpace();
      applied = Apply(pending, worker);
    }
    if (!applied) {
      return absl::ResourceExhaustedError(
          "the pool is full: there is no leaf for what its log holds; nothing is lost");
    }
  }
  worker.ReleaseDrainedLogs(parts_.log);
  worker.retired.HandTo(parts_.reclaimer);
  const std::lock_guard lock(mutex_);
  replayers_.insert(std::this_thread::get_id());
  return absl::OkStatus();
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
