// Recovery (LodgeTree IV-E): the leaf chain is built into nodes, then all partitions are replayed,
// in parallel. Two things change the medium: a fence group that is dropped because one of its
// records is not whole is made unreadable, before anything else; and replay may find a buffer full,
// and flushes by the ordinary protocol. So recovery may be cut anywhere and begun again.
//
// After a kill without a power cut recovery sees stores that were never flushed. A power cut that
// comes later must not take back what it believed: so it flushes that first (Settle).
//
// An entry is replayed when its number is above the watermark of the leaf that its key belongs to,
// and no newer entry has its key. Entries whose record is not whole are unacknowledged tails, or
// dead ones whose record's space serves another: the engine word kFencedBelow tells which. Anything
// else is damage, and the pool is refused.
#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "index/lodgetree/lodgetree.h"
#include "index/node/recovery_tasks.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

namespace {

constexpr size_t kLeavesPerTask = 4096;
constexpr size_t kProgressStep = 1 << 16;

uint64_t SizeOf(const RecordView& record) {
  return RecordBytes(record.key.size(), record.value.size(), record.expiry_unix_ms != 0);
}

absl::Status Damaged(std::string_view what, pmem::Offset offset) {
  return DamagedPool("lodgetree", what, offset);
}

}  // namespace

template <class C>
class LodgeTree<C>::Recovery {
 public:
  Recovery(LodgeTree& tree, const EngineContext& context, RecoveryReport* report)
      : tree_(tree),
        pool_(tree.pool_),
        context_(context),
        report_(*report),
        settler_(pool_.medium(),
                 !pool_.was_clean() && !pool_.medium().Canary("lodgetree.recovery.no_settle")) {}

  absl::Status Run();

 private:
  struct LeafRef {
    pmem::Offset offset;
    Separator low;
  };
  // A log entry whose number is above its leaf's watermark.
  struct Candidate {
    ReadEntry entry;
    Key key;
    uint32_t log;  // index into logs_
  };
  struct Logged {
    ReadEntry entry;
    uint32_t log;
  };

  absl::Status ReadEngineArea();
  absl::Status WalkChain();
  absl::Status BuildNodes();
  absl::Status FillNode(Node* node, size_t first, size_t last);
  absl::Status FillMirror(const LeafRef& leaf, LeafMirror* mirror);
  bool FingerprintsFit(const media::Leaf* leaf, const LeafMirror& mirror) const;
  absl::Status MarkSlots(const media::Leaf* leaf, uint32_t slots);
  absl::Status ReadLogs();
  absl::Status ReadOneLog(uint32_t log, std::vector<Candidate>* candidates,
                          std::vector<Logged>* unreadable);
  bool KeyOfEntry(const ReadEntry& entry, Key* key);
  uint64_t WatermarkFor(const Key& key) const;
  absl::Status ExplainUnreadable();
  void ForgetDroppedGroups();
  bool IsDead(const ReadEntry& entry) const;
  uint64_t FencedBelow() const;
  void ChooseWinners();
  absl::Status KeepWinners();
  uint32_t KeepLog(uint32_t log);
  void TakeAppliedIndex();
  absl::Status MarkWinner(const Candidate& winner);
  absl::Status Replay();
  size_t NodeBorder(size_t wanted) const;
  absl::Status ReplayRange(size_t first, size_t last);

  template <class Task>
  absl::Status Parallel(size_t tasks, Task task) {
    return RunTasks(tasks, context_.recovery_threads, task);
  }
  void Progress(std::string_view phase, uint64_t done, uint64_t total) const {
    if (context_.progress) context_.progress(phase, done, total);
  }

  LodgeTree& tree_;
  pmem::Pool& pool_;
  const EngineContext& context_;
  RecoveryReport& report_;
  const Settler settler_;
  pmem::Offset first_leaf_ = 0;
  std::vector<LeafRef> leaves_;
  std::vector<Node*> nodes_;
  std::vector<PartitionedVersionLog::FoundLog> logs_;
  std::vector<Candidate> candidates_;
  std::vector<Logged> unreadable_;
  std::vector<uint32_t> log_ids_;
  std::mutex mutex_;
  struct InlineKey {
    char bytes[8];
  };
  std::deque<InlineKey> inline_keys_;  // of candidates without a record
  std::vector<Logged> applied_;        // entries with an applied index
  std::vector<bool> tail_dropped_;     // by log: its last fence group was never fenced
};

// --- leaves ---

template <class C>
absl::Status LodgeTree<C>::Recovery::ReadEngineArea() {
  uint64_t longest_key;
  if (!ReadChecked(pool_.engine_area()[media::kLongestKey].Load(), &longest_key) ||
      !ReadChecked(pool_.engine_area()[media::kFencedBelow].Load(), &tree_.fenced_below_) ||
      !ReadChecked(pool_.engine_area()[media::kFirstLeaf].Load(), &first_leaf_)) {
    return Damaged("a word of the engine area with wrong check bits",
                   pool_.OffsetOf(pool_.engine_area().data()));
  }
  tree_.longest_key_ = longest_key;
  return absl::OkStatus();
}

template <class C>
absl::Status LodgeTree<C>::Recovery::WalkChain() {
  pmem::Offset offset = first_leaf_;
  while (offset != 0) {
    if (!tree_.leaves_.IsUnit(offset))
      return Damaged("a leaf pointer that leads to no leaf", offset);
    if (tree_.leaves_.Mark(offset) != pmem::UnitArena::MarkResult::kMarked) {
      return Damaged("a leaf that is reached twice", offset);
    }
    const auto* leaf = pool_.At<media::Leaf>(offset);
    const uint64_t commit = leaf->commit.Load();
    pmem::Offset next;
    if (!ReadChecked(leaf->next[(commit & media::kUseN) != 0 ? 1 : 0].Load(), &next)) {
      return Damaged("a next pointer with wrong check bits in the leaf", offset);
    }
    __builtin_prefetch(pool_.At<char>(next));
    __builtin_prefetch(pool_.At<char>(next) + pmem::kLineBytes);
    LeafRef ref{offset, {}};
    const FenceWords fence{leaf->low[0].Load(), leaf->low[1].Load()};
    const bool first = leaves_.empty();
    if (!tree_.codec_.DecodeFence(fence, tree_.texts_, &ref.low) ||
        first != (fence.kind() == FenceWords::kMinusInfinity) ||
        (!first && C::Compare(leaves_.back().low, ref.low) >= 0)) {
      return Damaged("a low fence that is damaged or out of order", offset);
    }
    if (!first && pool_.medium().Canary("lodgetree.recovery.no_low_fence")) {
      const auto slots = static_cast<uint32_t>(commit & media::kBitmapMask);
      const Pair pair = SlotPair(leaf, static_cast<unsigned>(std::countr_zero(slots | 1)));
      if (slots != 0) ref.low = tree_.codec_.Between(pair, pair, tree_.texts_);
    }
    if constexpr (C::kRecords) {
      if (fence.kind() == FenceWords::kRecord &&
          tree_.slab_.Mark(fence.record()) != pmem::UnitArena::MarkResult::kMarked) {
        return Damaged("a fence record with another owner", offset);
      }
    }
    leaves_.push_back(ref);
    if (leaves_.size() % kProgressStep == 0) Progress("leaves", leaves_.size(), 0);
    offset = next;
  }
  if (leaves_.empty()) return Damaged("no first leaf", 0);
  report_.leaves_scanned = leaves_.size();
  return absl::OkStatus();
}

template <class C>
absl::Status LodgeTree<C>::Recovery::FillMirror(const LeafRef& ref, LeafMirror* mirror) {
  const auto* leaf = pool_.At<media::Leaf>(ref.offset);
  const uint64_t commit = leaf->commit.Load();
  uint64_t value;
  if (!ReadChecked(commit, &value) || (value & ~(media::kBitmapMask | media::kUseN)) != 0) {
    return Damaged("a damaged commit word in the leaf", ref.offset);
  }
  if (!ReadChecked(leaf->watermark.Load(), &value)) {
    return Damaged("a damaged watermark in the leaf", ref.offset);
  }
  if ((commit & media::kBitmapMask) >> tree_.parameters_.leaf_slots != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("leaf_slots is ", tree_.parameters_.leaf_slots,
                     ", but a leaf of the pool has more pairs; open it with the larger value"));
  }
  for (unsigned slot = 0; slot < kLeafSlots; ++slot) {
    const uint64_t word = leaf->fingerprints[slot / 8].LoadRelaxed();
    mirror->fingerprints[slot] = static_cast<uint8_t>(word >> (8 * (slot % 8)));
  }
  mirror->bits = static_cast<uint32_t>(commit & media::kBitmapMask) |
                 ((commit & media::kUseN) != 0 ? LeafMirror::kUseN : 0);
  settler_.Settle(leaf,
                  sizeof(*leaf));  // new values too: a flush that finds one there does not write it
  const absl::Status status = MarkSlots(leaf, mirror->slots());
  if (!status.ok() || pool_.was_clean() || FingerprintsFit(leaf, *mirror)) return status;
  return Damaged("a fingerprint that is not its key's in the leaf", ref.offset);
}

// A pool that was closed in order has a checksum over its leaves instead.
template <class C>
bool LodgeTree<C>::Recovery::FingerprintsFit(const media::Leaf* leaf,
                                             const LeafMirror& mirror) const {
  for (uint32_t slots = mirror.slots(); slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    const uint16_t hash = tree_.codec_.HashOf(SlotPair(leaf, slot));
    if (FingerprintOf(hash) != mirror.fingerprints[slot]) return false;
  }
  return true;
}

template <class C>
absl::Status LodgeTree<C>::Recovery::MarkSlots(const media::Leaf* leaf, uint32_t slots) {
  if constexpr (C::kRecords) {
    for (; slots != 0; slots &= slots - 1) {
      const Pair pair = SlotPair(leaf, static_cast<unsigned>(std::countr_zero(slots)));
      if (!tree_.codec_.PairIsSound(pair)) {
        return Damaged("a pair whose check bits do not fit in the leaf", pool_.OffsetOf(leaf));
      }
      if (!C::IsRecord(pair.value)) continue;
      const pmem::Offset record = C::RecordOf(pair.value);
      if (tree_.slab_.Mark(record) != pmem::UnitArena::MarkResult::kMarked) {
        return Damaged("a pair whose record is none or another's", pool_.OffsetOf(leaf));
      }
    }
  }
  return absl::OkStatus();
}

template <class C>
absl::Status LodgeTree<C>::Recovery::FillNode(Node* node, size_t first, size_t last) {
  node->index_count = static_cast<uint8_t>(last - first);
  node->bounded = last < leaves_.size();
  if (node->bounded) {
    node->high = leaves_[last].low;
    C::Keep(node->high);
  }
  for (size_t i = first; i < last; ++i) {
    const auto at = static_cast<unsigned>(i - first);
    node->values[at] = leaves_[i].offset;
    if constexpr (C::kRecords) node->separators.low[at] = leaves_[i].low;
    node->words[at] = C::WordOf(leaves_[i].low, 0);
    const absl::Status status = FillMirror(leaves_[i], &node->mirrors[at]);
    if (!status.ok()) return status;
    node->leaf_count[at] = static_cast<uint8_t>(node->mirrors[at].count());
    if (pool_.medium().Canary("lodgetree.recovery.no_fingerprints")) {
      std::fill(std::begin(node->mirrors[at].fingerprints),
                std::end(node->mirrors[at].fingerprints), uint8_t{0});
    }
  }
  tree_.RebaseNode(node);
  return absl::OkStatus();
}

// A little over half of a node's slots go to leaves, as in a tree that has grown.
template <class C>
absl::Status LodgeTree<C>::Recovery::BuildNodes() {
  const size_t leaves_per_node = std::max(1u, tree_.parameters_.node_slots * 11 / 20);
  const size_t count = (leaves_.size() + leaves_per_node - 1) / leaves_per_node;
  nodes_.resize(count);
  for (Node*& node : nodes_) node = tree_.NewNode();
  const auto first_leaf = [&](size_t node) { return leaves_.size() * node / count; };
  const size_t nodes_per_task = std::max<size_t>(1, kLeavesPerTask / leaves_per_node);
  const absl::Status status =
      Parallel((count + nodes_per_task - 1) / nodes_per_task, [&](size_t task) {
        const size_t end = std::min(count, (task + 1) * nodes_per_task);
        for (size_t n = task * nodes_per_task; n < end; ++n) {
          const absl::Status filled = FillNode(nodes_[n], first_leaf(n), first_leaf(n + 1));
          if (!filled.ok()) return filled;
        }
        settler_.EndThread();
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  std::vector<typename Inner::Child> children(count);
  for (size_t n = 0; n < count; ++n) {
    children[n] = {leaves_[first_leaf(n)].low, nodes_[n]};
    C::Keep(children[n].low);
    for (unsigned i = 0; i < nodes_[n]->index_count; ++i) report_.keys += nodes_[n]->leaf_count[i];
  }
  tree_.tree_.Build(children);
  return absl::OkStatus();
}

// --- logs ---

template <class C>
bool LodgeTree<C>::Recovery::KeyOfEntry(const ReadEntry& entry, Key* key) {
  if constexpr (C::kRecords) {
    if (C::IsRecord(entry.pair.value)) {
      RecordView view;
      const pmem::Offset record = C::RecordOf(entry.pair.value);
      if (!VerifyRecord(pool_, tree_.slab_, record, &view)) return false;
      const bool any = pool_.medium().Canary("lodgetree.recovery.any_record");
      if (view.crc != entry.record_crc && !any) return false;
      if (entry.in_last_group) settler_.Settle(pool_.At<char>(record), SizeOf(view));
      *key = C::MakeKey(view.key);
      return true;
    }
    const std::lock_guard lock(mutex_);
    auto& text = inline_keys_.emplace_back();
    *key = C::MakeKey(tree_.codec_.KeyText(entry.pair, text.bytes));
    return true;
  } else {
    *key = C::KeyOfWord(entry.pair.key);
    return true;
  }
}

template <class C>
uint64_t LodgeTree<C>::Recovery::WatermarkFor(const Key& key) const {
  uint64_t snapshot;
  const Node* node = tree_.tree_.Descend(key, &snapshot);
  return media::WatermarkOf(tree_.LeafAt(node, node->Search(key).leaf));
}

template <class C>
absl::Status LodgeTree<C>::Recovery::ReadOneLog(uint32_t log, std::vector<Candidate>* candidates,
                                                std::vector<Logged>* unreadable) {
  std::vector<ReadEntry> entries;
  std::string problem;
  if (!tree_.log_.ReadLog(logs_[log], &entries, &problem)) return absl::DataLossError(problem);
  settler_.Settle(pool_.At<char>(logs_[log].offset),
                  sizeof(media::LogHeader) + entries.size() * sizeof(media::LogEntry));
  for (const ReadEntry& entry : entries) {
    if (entry.op == media::LogOp::kAppliedIndex) {
      const std::lock_guard lock(mutex_);
      applied_.push_back({entry, log});
      continue;
    }
    Key key;
    if (!KeyOfEntry(entry, &key)) {
      unreadable->push_back({entry, log});
      if (pool_.medium().Canary("lodgetree.recovery.stops_at_hole")) break;
    } else if (entry.sequence > WatermarkFor(key) ||
               pool_.medium().Canary("lodgetree.recovery.no_watermark")) {
      candidates->push_back({entry, key, log});
    }
  }
  return absl::OkStatus();
}

template <class C>
absl::Status LodgeTree<C>::Recovery::ReadLogs() {
  logs_ = tree_.log_.FindLogs();
  constexpr size_t kLogsPerTask = 256;
  const size_t tasks = (logs_.size() + kLogsPerTask - 1) / kLogsPerTask;
  return Parallel(tasks, [&](size_t task) {
    std::vector<Candidate> candidates;
    std::vector<Logged> unreadable;
    const size_t end = std::min(logs_.size(), (task + 1) * kLogsPerTask);
    for (size_t log = task * kLogsPerTask; log < end; ++log) {
      const absl::Status status = ReadOneLog(static_cast<uint32_t>(log), &candidates, &unreadable);
      if (!status.ok()) return status;
    }
    settler_.EndThread();
    const std::lock_guard lock(mutex_);
    candidates_.insert(candidates_.end(), candidates.begin(), candidates.end());
    unreadable_.insert(unreadable_.end(), unreadable.begin(), unreadable.end());
    return absl::OkStatus();
  });
}

// The newest entry of each key stays.
template <class C>
void LodgeTree<C>::Recovery::ChooseWinners() {
  const bool by_log = pool_.medium().Canary("lodgetree.recovery.order_by_log");
  const auto by_key = [by_log](const Candidate& a, const Candidate& b) {
    if constexpr (C::kRecords) {
      const int order = a.key.text.compare(b.key.text);
      if (order != 0) return order < 0;
    } else {
      if (a.key.word != b.key.word) return a.key.word < b.key.word;
    }
    if (by_log && a.log != b.log) return a.log > b.log;
    return a.entry.sequence > b.entry.sequence;
  };
  const auto same_key = [](const Candidate& a, const Candidate& b) {
    if constexpr (C::kRecords) {
      return a.key.text == b.key.text;
    } else {
      return a.key.word == b.key.word;
    }
  };
  std::sort(candidates_.begin(), candidates_.end(), by_key);
  candidates_.erase(std::unique(candidates_.begin(), candidates_.end(), same_key),
                    candidates_.end());
}

// Dead: a leaf that may hold the key has a higher watermark. (Superseded ones are told by the
// caller.)
template <class C>
bool LodgeTree<C>::Recovery::IsDead(const ReadEntry& entry) const {
  char text[8];
  StoreBigEndian(entry.pair.key, text);
  size_t length = 8;
  while (length > 0 && text[length - 1] == 0) --length;
  const auto begin =
      std::upper_bound(leaves_.begin(), leaves_.end(), std::string_view(text, length),
                       [](std::string_view key, const LeafRef& leaf) {
                         if constexpr (C::kRecords) {
                           return key < leaf.low->view();
                         } else {
                           return KeyWord(key, 0) < leaf.low;
                         }
                       });
  for (auto leaf = begin == leaves_.begin() ? begin : begin - 1; leaf != leaves_.end(); ++leaf) {
    if (leaf >= begin && C::WordOf(leaf->low, 0) > entry.pair.key) return false;
    const auto* media = pool_.At<media::Leaf>(leaf->offset);
    if (media::WatermarkOf(media) >= entry.sequence) return true;
  }
  return false;
}

// The canary believes leaves and newer entries alone.
template <class C>
uint64_t LodgeTree<C>::Recovery::FencedBelow() const {
  if (pool_.medium().Canary("lodgetree.recovery.no_horizon")) return UINT64_MAX;
  return tree_.fenced_below_;
}

// An entry without a whole record is dead, its record given back: then its number is below
// kFencedBelow. Or its fence group was never fenced: then the whole group was not acknowledged, and
// goes. No leaf and no other entry can tell these apart, since other threads may have written newer
// numbers meanwhile.
template <class C>
absl::Status LodgeTree<C>::Recovery::ExplainUnreadable() {
  tail_dropped_.assign(logs_.size(), false);
  if (unreadable_.empty()) return absl::OkStatus();
  // The newest entry of each {key word, hash}: it supersedes the older ones.
  std::unordered_map<uint64_t, uint64_t> newest;
  const auto tag = [this](const ReadEntry& entry) {
    return entry.pair.key * 0x9E3779B97F4A7C15ull + tree_.codec_.HashOf(entry.pair);
  };
  const auto note = [&](const ReadEntry& entry) {
    uint64_t& sequence = newest[tag(entry)];
    sequence = std::max(sequence, entry.sequence);
  };
  for (const Candidate& candidate : candidates_) note(candidate.entry);
  for (const Logged& unreadable : unreadable_) note(unreadable.entry);
  const uint64_t fenced_below = FencedBelow();
  for (const auto& [entry, log] : unreadable_) {
    const bool fenced = entry.sequence < fenced_below;
    if (fenced && (newest[tag(entry)] > entry.sequence || IsDead(entry))) continue;
    if (fenced || !entry.in_last_group || pool_.was_clean()) {
      return Damaged("a log entry whose record is damaged, in the log", logs_[log].offset);
    }
    tail_dropped_[log] = true;
    ++report_.log_entries_dropped;
  }
  const auto dropped = [this](const auto& logged) {
    return tail_dropped_[logged.log] && logged.entry.in_last_group;
  };
  report_.log_entries_dropped += std::erase_if(candidates_, dropped);
  std::erase_if(applied_, dropped);
  ForgetDroppedGroups();
  return absl::OkStatus();
}

// What was decided now must be decided after any later crash too. Then the entry that tells it may
// be dead (its key written again, its leaf drained), and the rest of its group would come back: so
// the group's first entry is made unreadable, for good.
template <class C>
void LodgeTree<C>::Recovery::ForgetDroppedGroups() {
  pmem::Medium& medium = pool_.medium();
  std::vector<ReadEntry> entries;
  std::string problem;
  for (size_t log = 0; log < logs_.size(); ++log) {
    if (!tail_dropped_[log] || !tree_.log_.ReadLog(logs_[log], &entries, &problem)) continue;
    size_t first = 0;
    while (!entries[first].in_last_group) ++first;
    auto* entry = pool_.At<media::LogEntry>(logs_[log].offset + sizeof(media::LogHeader)) + first;
    medium.Store(entry->checksums, ~entry->checksums.Load());
    medium.FlushLine(entry);
  }
  LODGEKV_CRASH_POINT(medium, "lodgetree.recovery.1");
  medium.Fence();
}

template <class C>
void LodgeTree<C>::Recovery::TakeAppliedIndex() {
  tree_.applied_index_ = pool_.applied_index();
  const auto newest = std::max_element(
      applied_.begin(), applied_.end(),
      [](const Logged& a, const Logged& b) { return a.entry.pair.key < b.entry.pair.key; });
  if (newest == applied_.end() || newest->entry.pair.key < tree_.applied_index_) return;
  tree_.applied_index_ = newest->entry.pair.key;
  tree_.applied_log_ = KeepLog(newest->log);
}

// The log stays, with one valid entry more.
template <class C>
uint32_t LodgeTree<C>::Recovery::KeepLog(uint32_t log) {
  if (log_ids_[log] == PartitionedVersionLog::kNoLog) log_ids_[log] = tree_.log_.Keep(logs_[log]);
  if (!pool_.medium().Canary("lodgetree.recovery.not_counted")) {
    tree_.log_.AddValid(log_ids_[log]);
  }
  return log_ids_[log];
}

template <class C>
absl::Status LodgeTree<C>::Recovery::MarkWinner(const Candidate& winner) {
  if constexpr (C::kRecords) {
    const Pair pair = winner.entry.pair;
    if (!C::IsRecord(pair.value)) return absl::OkStatus();
    const pmem::Offset record = C::RecordOf(pair.value);
    const auto result = tree_.slab_.Mark(record);
    if (result == pmem::UnitArena::MarkResult::kMarked) return absl::OkStatus();
    // A leaf may have it already: drained, but the watermark was not durable.
    uint64_t snapshot;
    const Node* node = tree_.tree_.Descend(winner.key, &snapshot);
    const unsigned leaf = node->Search(winner.key).leaf;
    const int slot = tree_.FindPairInLeaf(node, leaf, pair);
    if (result == pmem::UnitArena::MarkResult::kTwice && slot >= 0 &&
        SlotPair(tree_.LeafAt(node, leaf), static_cast<unsigned>(slot)).value == pair.value) {
      return absl::OkStatus();
    }
    return Damaged("a log entry whose record is another's", logs_[winner.log].offset);
  }
  return absl::OkStatus();
}

template <class C>
absl::Status LodgeTree<C>::Recovery::KeepWinners() {
  log_ids_.assign(logs_.size(), PartitionedVersionLog::kNoLog);
  for (const Candidate& winner : candidates_) {
    KeepLog(winner.log);
    const absl::Status status = MarkWinner(winner);
    if (!status.ok()) return status;
  }
  TakeAppliedIndex();
  if constexpr (C::kRecords) {
    // What is not reached is given back from here on, and what was not fenced is forgotten.
    if (!tree_.RaiseFencedBelow(pool_.PeekSequence())) {
      return absl::UnavailableError("a sync of the medium has failed");
    }
  }
  tree_.leaves_.FinishMark();
  tree_.slab_.FinishMark();
  tree_.log_.FinishAdopt();
  report_.log_entries_replayed = candidates_.size();
  return absl::OkStatus();
}

// Each thread replays a range of keys, in order of numbers: so a flush in between finds every older
// pair of its node applied, and its watermark is true.
template <class C>
absl::Status LodgeTree<C>::Recovery::ReplayRange(size_t first, size_t last) {
  const auto begin = candidates_.begin();
  const bool by_key = pool_.medium().Canary("lodgetree.recovery.replay_by_key");
  std::sort(begin + static_cast<ptrdiff_t>(first), begin + static_cast<ptrdiff_t>(last),
            [by_key](const Candidate& a, const Candidate& b) {
              return by_key ? a.key.word < b.key.word : a.entry.sequence < b.entry.sequence;
            });
  WriteResult result;
  for (size_t i = first; i < last; ++i) {
    const Candidate& winner = candidates_[i];
    PendingOp pending;
    pending.result = &result;
    pending.key = winner.key;
    pending.staged.pair = winner.entry.pair;
    pending.tombstone = winner.entry.op == media::LogOp::kDelete;
    pending.sequence = winner.entry.sequence;
    pending.log = log_ids_[winner.log];
    WriteContext context(tree_.CurrentWorker());
    context.fenced = true;
    context.replaying = true;
    tree_.LockOne(context, pending.key);
    tree_.Apply(context, pending);
    tree_.UnlockAll(context);
    if (context.stuck) {
      return absl::ResourceExhaustedError(
          "the pool is full: there is no leaf for what its log holds; nothing is lost");
    }
  }
  Worker& worker = tree_.CurrentWorker();
  tree_.ReleaseDrainedLogs(worker);
  worker.retired.HandTo(tree_.reclaimer_);
  return absl::OkStatus();
}

// The first candidate at or behind `wanted` whose node holds none before it.
template <class C>
size_t LodgeTree<C>::Recovery::NodeBorder(size_t wanted) const {
  if (wanted == 0 || wanted >= candidates_.size()) return std::min(wanted, candidates_.size());
  uint64_t snapshot;
  const Node* node = tree_.tree_.Descend(candidates_[wanted].key, &snapshot);
  while (wanted < candidates_.size() &&
         (!node->bounded || C::CompareToKey(node->high, candidates_[wanted].key) > 0)) {
    ++wanted;
  }
  return wanted;
}

template <class C>
absl::Status LodgeTree<C>::Recovery::Replay() {
  constexpr size_t kEntriesPerTask = 16384;
  const size_t tasks = (candidates_.size() + kEntriesPerTask - 1) / kEntriesPerTask;
  std::vector<size_t> borders(tasks + 1);
  for (size_t i = 1; i <= tasks; ++i) borders[i] = NodeBorder(candidates_.size() * i / tasks);
  return Parallel(tasks,
                  [&](size_t task) { return ReplayRange(borders[task], borders[task + 1]); });
}

template <class C>
absl::Status LodgeTree<C>::Recovery::Run() {
  const auto start = std::chrono::steady_clock::now();
  report_.clean = pool_.was_clean();
  report_.threads = std::max(1u, context_.recovery_threads);
  const std::vector<pmem::Chunk> chunks = pool_.Chunks();
  tree_.leaves_.Adopt(chunks);
  tree_.log_.Adopt(chunks);
  tree_.slab_.Adopt();
  absl::Status status = ReadEngineArea();
  if (status.ok()) status = WalkChain();
  if (status.ok()) status = BuildNodes();
  Progress("leaves", leaves_.size(), leaves_.size());
  if (status.ok()) status = ReadLogs();
  if (!status.ok()) return status;
  status = ExplainUnreadable();
  if (!status.ok()) return status;
  ChooseWinners();
  status = KeepWinners();
  if (!status.ok()) return status;
  status = Replay();
  if (!status.ok()) return status;
  Progress("log", candidates_.size(), candidates_.size());
  report_.keys = tree_.CountKeys();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report_.milliseconds = took.count();
  return absl::OkStatus();
}

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> LodgeTree<C>::Recover(const EngineContext& context,
                                                              RecoveryReport* report) {
  const pmem::Word& word = context.pool->engine_area()[media::kLogEntries];
  uint64_t log_entries;
  if (!ReadChecked(word.Load(), &log_entries) || log_entries < 2 || log_entries > 1000) {
    return Damaged("a size of logs that no pool has", context.pool->OffsetOf(&word));
  }
  std::unique_ptr<LodgeTree> tree(new LodgeTree(context, static_cast<unsigned>(log_entries)));
  const absl::Status status = Recovery(*tree, context, report).Run();
  if (!status.ok()) return status;
  return tree;
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
