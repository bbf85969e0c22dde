#include "index/sptree/pending_log.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <thread>
#include <unordered_map>

#include "index/node/prefetch.h"
#include "index/sptree/buffer_fill.h"
#include "index/sptree/buffer_flush.h"
#include "index/sptree/leaf_search.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

namespace {
constexpr size_t kLogsPerPart = 256;
constexpr size_t kMostParts = 16;  // of each a bin has a piece
constexpr size_t kMostBins = 16384;
constexpr size_t kEntriesOfBin = 256;
constexpr size_t kDrawnForBin = 2;
constexpr size_t kEntriesAhead = 16;
}  // namespace

template <class C>
struct PendingLog<C>::State {
  State(TreeState<C>& tree, const EngineContext& of_engine)
      : context(of_engine),
        settler(tree.medium, !tree.pool.was_clean()),
        with{tree.pool, tree.slab, tree.codec, tree.log, tree.horizon, settler, context, "sptree"},
        logs(with) {}

  const EngineContext context;
  const Settler settler;
  const LogRecovery<C> with;
  LogEntries<C> logs;
  BinBorders<C> borders;
  std::vector<BinnedEntries> parts;
  std::vector<std::vector<std::pair<FoundEntry, uint32_t>>> unreadable;  // by part
  std::vector<uint32_t> valid;                                           // by log
  std::vector<uint32_t> ids;                                             // by log
  std::unique_ptr<Bin[]> bins;
  std::deque<Doubtful> doubtful;  // ascending by word
};

template <class C>
PendingLog<C>::PendingLog(TreeState<C>& tree) : tree_(tree) {}
template <class C>
PendingLog<C>::~PendingLog() = default;

// --- reading ---

template <class C>
absl::Status PendingLog<C>::Read(const EngineContext& context) {
  state_ = std::make_unique<State>(tree_, context);
  State& state = *state_;
  state.logs.FindLogs();
  const size_t logs = state.logs.logs().size();
  DrawBorders();
  state.valid.assign(logs, 0);
  state.parts.resize(PartsOf(logs, kLogsPerPart, kMostParts));
  state.unreadable.resize(state.parts.size());
  PhaseProgress logs_read(context.progress, "logs", logs);
  const absl::Status status = state.with.Parallel(state.parts.size(), [&](size_t i) {
    const Part part = Part::Of(logs, state.parts.size(), i);
    const absl::Status read = ReadPart(part, i);
    state.settler.EndThread();
    logs_read.Add(part.end - part.begin);
    return read;
  });
  state.bins = std::make_unique<Bin[]>(state.borders.bins());
  return status;
}

// From logs that are as far from one another as possible.
template <class C>
void PendingLog<C>::DrawBorders() {
  State& state = *state_;
  const std::vector<FoundLog>& logs = state.logs.logs();
  const size_t entries = logs.empty() ? 0 : logs.size() * logs.front().entries;
  const size_t wanted_bins = std::min(entries / kEntriesOfBin + 1, kMostBins);
  const size_t wanted = std::min(logs.size(), wanted_bins * kDrawnForBin);
  std::vector<typename BinBorders<C>::Drawn> drawn;
  drawn.reserve(wanted);
  for (size_t i = 0; i < wanted; ++i) {
    const FoundLog& log = logs[i * logs.size() / wanted];
    FoundEntry entry;
    typename LogEntries<C>::InlineKey text;
    Key key;
    const auto position = static_cast<unsigned>(i % log.entries);
    if (!tree_.log.ReadFound(log, position, &entry)) continue;
    if (entry.op == LogOp::kAppliedIndex || !state.logs.KeyOf(entry, &text, &key)) continue;
    drawn.emplace_back(BinBorders<C>::ProbeOf(key));
  }
  const size_t bins = drawn.size() / kDrawnForBin;
  state.borders.Set(std::move(drawn), bins);
}

// They overlap then.
template <class C>
void PendingLog<C>::FetchRecords(const std::vector<FoundEntry>& entries) const {
  for (const FoundEntry& entry : entries) tree_.codec.PrefetchKey(entry.pair);
}

template <class C>
absl::Status PendingLog<C>::ReadPart(Part logs, size_t part) {
  State& state = *state_;
  BinnedEntries& binned = state.parts[part];
  std::vector<FoundEntry> entries;
  Readable readable;
  if (logs.begin < logs.end) {
    binned.Reserve((logs.end - logs.begin) * state.logs.logs()[logs.begin].entries);
  }
  for (size_t i = logs.begin; i < logs.end; ++i) {
    const auto log = static_cast<uint32_t>(i);
    absl::Status status = tree_.pool.contents().EnsureVerified(state.logs.logs()[i].offset);
    if (status.ok()) status = state.logs.ReadLog(log, &entries);
    if (!status.ok()) return status;
    FetchRecords(entries);
    status = FindKeys(entries, log, part, &readable);
    if (!status.ok()) return status;
    readable.bins.resize(readable.keys.size());
    state.borders.BinsOf(readable.keys, readable.bins.data());
    for (size_t k = 0; k < readable.keys.size(); ++k) {
      const uint32_t position = readable.positions[k];
      binned.Add({log, position, entries[position].in_last_group}, readable.bins[k]);
    }
    state.valid[i] = static_cast<uint32_t>(readable.keys.size());
  }
  binned.Divide(state.borders.bins());
  return absl::OkStatus();
}

// Of one log's entries with a key.
template <class C>
absl::Status PendingLog<C>::FindKeys(const std::vector<FoundEntry>& entries, uint32_t log,
                                     size_t part, Readable* readable) {
  State& state = *state_;
  readable->keys.clear();
  readable->positions.clear();
  readable->texts.resize(entries.size());
  for (uint32_t position = 0; position < entries.size(); ++position) {
    const FoundEntry& entry = entries[position];
    if (entry.op == LogOp::kAppliedIndex) continue;  // of another tree's logs
    Key key;
    if (state.logs.KeyOf(entry, &readable->texts[position], &key)) {
      readable->keys.push_back(BinBorders<C>::ProbeOf(key));
      readable->positions.push_back(position);
      continue;
    }
    const absl::Status status = NoteUnreadable(entry, log, part);
    if (!status.ok() || state.with.Canary("node.log_replay.stops_at_hole")) return status;
  }
  return absl::OkStatus();
}

template <class C>
absl::Status PendingLog<C>::NoteUnreadable(const FoundEntry& entry, uint32_t log, size_t part) {
  State& state = *state_;
  if (state.logs.WasFenced(entry)) {
    state.unreadable[part].emplace_back(entry, log);
    return absl::OkStatus();
  }
  if (!state.logs.DropGroupOf(entry, log)) return state.logs.DamagedRecord(log);
  dropped_.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

// Those that were whole go with the groups of those that were not.
template <class C>
void PendingLog<C>::DropGroups() {
  State& state = *state_;
  uint64_t gone = 0;
  for (const BinnedEntries& part : state.parts) {
    part.VisitAll([&](EntryRef ref) {
      if (ref.in_last_group == 0 || !state.logs.LastGroupIsDropped(ref.log)) return;
      --state.valid[ref.log];
      ++gone;
    });
  }
  dropped_.fetch_add(gone, std::memory_order_relaxed);
  state.logs.SpoilDroppedGroups();
}

template <class C>
absl::Status PendingLog<C>::Keep() {
  State& state = *state_;
  if (dropped() != 0) DropGroups();
  GroupDoubtful();
  if (state.with.Canary("sptree.touch.log_not_held")) {
    for (uint32_t& valid : state.valid) valid = std::min(valid, 1u);
  }
  const absl::Status status = state.logs.Keep(state.valid, &state.ids);
  if (!status.ok()) return status;
  pending_.store(true, std::memory_order_release);
  if constexpr (C::kRecords) {
    // What is not reached is freed later, and what was not fenced is dropped.
    if (!tree_.horizon.Raise(tree_.pool.PeekSequence())) {
      return absl::UnavailableError("a sync of the medium has failed");
    }
  }
  return status;
}

// --- entries without a whole record ---

template <class C>
void PendingLog<C>::GroupDoubtful() {
  State& state = *state_;
  std::vector<std::pair<FoundEntry, uint32_t>> all;
  for (auto& some : state.unreadable) {
    all.insert(all.end(), some.begin(), some.end());
    some = {};
  }
  std::erase_if(all,
                [&](const auto& entry) { return state.logs.IsDropped(entry.first, entry.second); });
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.first.pair.key < b.first.pair.key; });
  for (const auto& entry : all) {
    const uint64_t word = entry.first.pair.key;
    if (state.doubtful.empty() || state.doubtful.back().word != word) {
      state.doubtful.emplace_back().word = word;
    }
    state.doubtful.back().entries.push_back(entry);
  }
}

// Invariant 4.
template <class C>
void PendingLog<C>::NoteWatermark(const Looked<C>& looked, uint64_t watermark) {
  std::deque<Doubtful>& all = state_->doubtful;
  if (all.empty()) return;
  const uint64_t low = C::WordOf(looked.low, 0);
  const uint64_t high = looked.right != nullptr ? C::WordOf(looked.high, 0) : UINT64_MAX;
  auto at = std::partition_point(all.begin(), all.end(),
                                 [&](const Doubtful& some) { return some.word < low; });
  for (; at != all.end() && at->word <= high; ++at) {
    uint64_t known = at->watermark.load(std::memory_order_relaxed);
    while (known < watermark && !at->watermark.compare_exchange_weak(known, watermark)) {
    }
  }
}

template <class C>
absl::Status PendingLog<C>::End() {
  if (state_ == nullptr) return absl::OkStatus();
  const State& state = *state_;
  std::unordered_map<uint64_t, uint64_t> newest;  // by tag
  std::vector<std::pair<FoundEntry, uint32_t>> left;
  for (const Doubtful& some : state.doubtful) {
    for (const auto& [entry, log] : some.entries) {
      if (entry.sequence <= some.watermark.load()) continue;
      left.emplace_back(entry, log);
      newest.emplace(state.logs.TagOf(entry), 0);
    }
  }
  // No log has been overwritten yet.
  std::vector<FoundEntry> entries;
  for (size_t log = 0; !left.empty() && log < state.logs.logs().size(); ++log) {
    const absl::Status status = state.logs.ReadLog(static_cast<uint32_t>(log), &entries);
    if (!status.ok()) return status;
    for (const FoundEntry& entry : entries) {
      const auto found = newest.find(state.logs.TagOf(entry));
      if (found != newest.end()) found->second = std::max(found->second, entry.sequence);
    }
  }
  for (const auto& [entry, log] : left) {
    if (newest[state.logs.TagOf(entry)] <= entry.sequence) return state.logs.DamagedRecord(log);
  }
  pending_.store(false);
  while (preparing_.load() != 0) std::this_thread::yield();
  state_.reset();
  return absl::OkStatus();
}

// --- bins ---

template <class C>
auto PendingLog<C>::Ordered(size_t number) -> const std::vector<Entry>& {
  Bin& bin = state_->bins[number];
  if (bin.ordered.load(std::memory_order_acquire)) return bin.entries;
  const std::lock_guard lock(bin.mutex);
  if (!bin.ordered.load(std::memory_order_relaxed)) {
    FillBin(number, &bin);
    Order(&bin.entries);
    bin.ordered.store(true, std::memory_order_release);
  }
  return bin.entries;
}

template <class C>
void PendingLog<C>::FillBin(size_t number, Bin* bin) const {
  const State& state = *state_;
  std::vector<EntryRef> refs;
  for (const BinnedEntries& part : state.parts) {
    part.VisitBin(number, [&](EntryRef ref) { refs.push_back(ref); });
  }
  const auto place = [&](const EntryRef& ref) {
    return tree_.pool.template At<char>(state.logs.logs()[ref.log].offset) +
           sizeof(lodgekv::media::LogHeader) + ref.position * sizeof(lodgekv::media::LogEntry);
  };
  bin->entries.reserve(refs.size());
  for (size_t i = 0; i < refs.size(); ++i) {
    if (i + kEntriesAhead < refs.size()) Prefetch(place(refs[i + kEntriesAhead]));
    const EntryRef ref = refs[i];
    if (ref.in_last_group != 0 && state.logs.LastGroupIsDropped(ref.log)) continue;
    FoundEntry entry;
    if (!tree_.log.ReadFound(state.logs.logs()[ref.log], ref.position, &entry)) continue;
    bin->entries.push_back({entry.pair, entry.sequence, ref.log, entry.op});
  }
}

// What is compared of records is fetched before.
template <class C>
void PendingLog<C>::Order(std::vector<Entry>* entries) const {
  if constexpr (C::kRecords) {
    for (const Entry& entry : *entries) {
      if (!C::IsRecord(entry.pair.value)) continue;
      Prefetch(tree_.pool.template At<char>(C::RecordOf(entry.pair.value)));
    }
  }
  const bool by_log = state_->with.Canary("node.log_replay.order_by_log");
  std::sort(entries->begin(), entries->end(), [&](const Entry& a, const Entry& b) {
    if (a.pair.key != b.pair.key) return a.pair.key < b.pair.key;
    if (C::kRecords && !tree_.codec.SameKey(a.pair, b.pair)) {
      return tree_.codec.Less(a.pair, b.pair);
    }
    if (by_log && a.log != b.log) return a.log > b.log;
    return a.sequence > b.sequence;
  });
}

template <class C>
void PendingLog<C>::ForgetBelow(const Key& key) {
  if (state_ == nullptr) return;
  const size_t bin = state_->borders.BinOf(BinBorders<C>::ProbeOf(key));
  for (; forgotten_ < bin; ++forgotten_)
    std::vector<Entry>().swap(state_->bins[forgotten_].entries);
}

template <class C>
void PendingLog<C>::Prepare(const Key& key, size_t bins) {
  if (!pending()) return;
  preparing_.fetch_add(1);
  if (pending_.load()) {
    const BinBorders<C>& borders = state_->borders;
    const size_t first = borders.BinOf(BinBorders<C>::ProbeOf(key));
    for (size_t i = first; i < std::min(first + bins, borders.bins()); ++i) Ordered(i);
  }
  preparing_.fetch_sub(1);
}

// --- leaves ---

template <class C>
auto PendingLog<C>::KeyOf(const Entry& entry, char (&scratch)[8]) const -> Key {
  if constexpr (C::kRecords) {
    return C::MakeKey(tree_.codec.KeyText(entry.pair, scratch));
  } else {
    return C::KeyOfWord(entry.pair.key);
  }
}

template <class C>
bool PendingLog<C>::IsBelow(const Entry& entry, Separator separator) const {
  return !tree_.codec.KeyInRange(entry.pair, separator, /*bounded=*/false, separator);
}

template <class C>
absl::Status PendingLog<C>::FindShare(const Looked<C>& looked, Share* share) {
  if (state_ == nullptr) return absl::OkStatus();
  const BinBorders<C>& borders = state_->borders;
  const uint64_t watermark = WatermarkOf(*looked.bnode);
  NoteWatermark(looked, watermark);
  const bool bounded = looked.right != nullptr;
  const size_t first = borders.BinOf(BinBorders<C>::ProbeOf(looked.low));
  const size_t last =
      bounded ? borders.BinOf(BinBorders<C>::ProbeOf(looked.high)) : borders.bins() - 1;
  for (size_t bin = first; bin <= last; ++bin) {
    const std::vector<Entry>& all = Ordered(bin);
    const auto border = [&](Separator separator) {
      return std::partition_point(all.begin(), all.end(),
                                  [&](const Entry& entry) { return IsBelow(entry, separator); });
    };
    const auto begin = border(looked.low);
    const auto end = bounded ? border(looked.high) : all.end();
    if (begin < end) Judge(&*begin, &*begin + (end - begin), watermark, share);
  }
  const bool by_key = state_->with.Canary("node.log_replay.replay_by_key");
  std::sort(share->taken.begin(), share->taken.end(), [by_key](const Entry& a, const Entry& b) {
    return by_key ? a.pair.key < b.pair.key : a.sequence < b.sequence;
  });
  return FindRoom(looked, *share);
}

// Entries of one key are neighbours, the newest first.
template <class C>
void PendingLog<C>::Judge(const Entry* begin, const Entry* end, uint64_t watermark,
                          Share* share) const {
  const State& state = *state_;
  const bool takes_all = state.with.Canary("node.log_replay.no_watermark");
  const bool takes_none = state.with.Canary("sptree.touch.log_not_taken");
  for (const Entry* at = begin; at < end; ++at) {
    const bool newest = at == begin || !tree_.codec.SameKey(at[-1].pair, at->pair);
    const bool needed = at->sequence > watermark || takes_all;
    if (newest && needed && !takes_none) {
      share->taken.push_back(*at);
      share->taken.back().log = state.ids[at->log];
    } else {
      share->dead.push_back(state.ids[at->log]);
    }
  }
}

// What was put in the buffer had slots in the leaf (write_buffer.h, invariant 2).
template <class C>
absl::Status PendingLog<C>::FindRoom(const Looked<C>& looked, const Share& share) const {
  const LeafSearch<C> search(tree_);
  int inserts = 0;
  for (const Entry& entry : share.taken) {
    if (entry.op != LogOp::kPut) continue;
    char scratch[8] = {};
    inserts += search.FindPlace(*looked.leaf, KeyOf(entry, scratch)) < 0 ? 1 : 0;
  }
  if (inserts <= std::popcount(tree_.usable_slots() & ~looked.leaf->bitmap))
    return absl::OkStatus();
  return LeafExaminer<C>::MorePairs(tree_);
}

// Those that are dead release their logs only now: a leaf that was looked at may not be touched in
// the end.
template <class C>
void PendingLog<C>::Take(Worker& worker, Mnode<C>* leaf, const Share& share) {
  const LeafSearch<C> search(tree_);
  const BufferFill<C> fill(tree_);
  for (const Entry& entry : share.taken) {
    if constexpr (C::kRecords) {
      if (C::IsRecord(entry.pair.value) && !tree_.medium.Canary("sptree.touch.log_not_marked")) {
        (void)tree_.slab.Mark(C::RecordOf(entry.pair.value));
      }
    }
    char scratch[8] = {};
    const LockedLeaf<C> held = search.Locate(leaf, KeyOf(entry, scratch));
    if (leaf->buffered() && leaf->buffer->count == WriteBuffer::kMostPairs) {
      (void)BufferFlusher<C>(tree_).Empty(worker, leaf);
    }
    (void)fill.TakeSpace(worker, leaf, BufferPool::Limited::kNo);
    fill.Put(worker, held, entry.pair, entry.op, entry.sequence, entry.log);
  }
  for (const uint32_t log : share.dead) tree_.log.Release(log);
  taken_.fetch_add(share.taken.size(), std::memory_order_relaxed);
}

template class PendingLog<Fixed64Codec>;
template class PendingLog<BytesCodec>;

}  // namespace lodgekv::sptree
