#include "index/sptree/top_backup.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "index/node/checked_word.h"
#include "index/sptree/layout.h"

namespace lodgekv::sptree {

namespace {

// A backup costs 16 bytes and a visit for each leaf, and is due when one leaf of so many is another
// one: what a first touch has to go along the chain stays short.
constexpr uint64_t kLeavesForChange = 16;
constexpr uint64_t kLeastChanges = 256;  // a small tree is read as fast
constexpr uint64_t kTracedChanges = 2;   // in the crash laboratory
constexpr size_t kEntriesAtOnce = 256;
// Beyond that, and as many as the backup has entries, a walk is no slower.
constexpr size_t kMostSplits = 4096;

uint64_t LeafWord(uint64_t low, pmem::Offset leaf) {
  return CheckBitsOf(low, leaf) << kCheckedBits | leaf;
}

}  // namespace

bool TopBackup::Read(size_t i, Entry* entry) const {
  const media::BackupEntry& at = EntryAt(i);
  const uint64_t word = at.leaf.Load();
  *entry = {at.low.Load(), word & kCheckedMask};
  return word == LeafWord(entry->low, entry->leaf) && leaves_.IsUnit(entry->leaf);
}

// Leaves to the right of it may have the same first word.
void TopBackup::AddAscending(const Entry& entry, std::vector<Entry>* entries) {
  auto end = entries->end();
  for (auto at = end; at != entries->begin() && (--at)->low >= entry.low;) {
    if (at->low > entry.low || at->leaf == entry.leaf) end = at;
  }
  entries->erase(end, entries->end());
  entries->push_back(entry);
}

void TopBackup::NoteSplit(const Split& split) {
  changes_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (!whole_) return;
  splits_.push_back(split);
  if (splits_.size() > kMostSplits && splits_.size() > entries()) ForgetSplits();
}

void TopBackup::ForgetSplits() {
  whole_ = false;
  splits_ = {};
}

bool TopBackup::Keeps(pmem::Offset leaf) {
  changes_.fetch_add(1, std::memory_order_relaxed);
  if (pool_.medium().Canary("sptree.backup.dropped_leaf_freed")) return false;
  const std::lock_guard lock(mutex_);
  if (!making_ && entries() == 0) return false;
  kept_.push_back(leaf);
  return true;
}

void TopBackup::SetDue() {
  const bool traced = pool_.medium().tracer() != nullptr;
  const uint64_t least = traced ? kTracedChanges : kLeastChanges;
  changes_.store(0, std::memory_order_relaxed);
  due_at_.store(std::max(least, entries() / kLeavesForChange), std::memory_order_relaxed);
}

void TopBackup::Begin(Changes* changes) {
  const std::lock_guard lock(mutex_);
  making_ = true;
  changes->whole = std::exchange(whole_, true);
  changes->splits = std::exchange(splits_, {});
  changes->dropped = kept_;
  if (pool_.medium().Canary("sptree.backup.dropped_stays")) changes->dropped.clear();
  kept_before_ = kept_.size();
  changes_.store(0, std::memory_order_relaxed);
}

void TopBackup::NoteWalked(std::span<const Entry> entries) {
  walks_.fetch_add(1, std::memory_order_relaxed);
  absl::flat_hash_set<pmem::Offset> split_off;
  {
    const std::lock_guard lock(mutex_);
    for (const Split& split : splits_) split_off.insert(split.leaf.leaf);
  }
  absl::flat_hash_set<pmem::Offset> seen;
  for (const Entry& entry : entries) {
    if (split_off.contains(entry.leaf)) seen.insert(entry.leaf);
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(splits_, [&](const Split& split) { return seen.contains(split.leaf.leaf); });
}

bool TopBackup::Write(std::span<const Entry> entries) {
  TwoGenerations::Staged staged;
  const uint64_t bytes = entries.size() * sizeof(media::BackupEntry);
  // By powers of two, since each class of sizes has chunks of its own.
  const uint64_t room = std::bit_ceil(bytes + pmem::kBlockBytes) - pmem::kBlockBytes;
  if (!generations_.Stage(room, pmem::ReservePolicy::kKeep, &staged)) return false;
  staged.bytes = bytes;
  for (size_t begin = 0; begin < entries.size(); begin += kEntriesAtOnce) {
    uint64_t words[2 * kEntriesAtOnce];
    const size_t count = std::min(kEntriesAtOnce, entries.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      const Entry& entry = entries[begin + i];
      words[2 * i] = entry.low;
      words[2 * i + 1] = LeafWord(entry.low, entry.leaf);
    }
    generations_.Write(staged, begin * sizeof(media::BackupEntry), words,
                       count * sizeof(media::BackupEntry));
  }
  return generations_.Commit(staged);
}

bool TopBackup::Replace(std::span<const Entry> entries) {
  std::vector<pmem::Offset> gone;
  {
    const std::lock_guard replacing(replacing_);
    if (!ReplaceHeld(entries, &gone)) return false;
  }
  written_.fetch_add(1, std::memory_order_relaxed);
  FreeKept(gone, 0);
  return true;
}

// `*gone`: leaves that nothing leads to any more.
bool TopBackup::ReplaceHeld(std::span<const Entry> entries, std::vector<pmem::Offset>* gone) {
  {
    const std::lock_guard lock(mutex_);
    if (!making_) return false;
  }
  const bool written = Write(entries);
  const std::lock_guard lock(mutex_);
  making_ = false;
  SetDue();
  if (!written) {
    ForgetSplits();
    return false;
  }
  const auto end = kept_.begin() + static_cast<ptrdiff_t>(kept_before_);
  gone->assign(kept_.begin(), end);
  kept_.erase(kept_.begin(), end);
  return true;
}

void TopBackup::Abandon() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(making_, false)) return;
  ForgetSplits();
  SetDue();
}

bool TopBackup::GiveUp() {
  std::vector<pmem::Offset> gone;
  pmem::Offset space;
  {
    const std::lock_guard replacing(replacing_);
    const std::lock_guard lock(mutex_);
    if ((kept_.empty() && entries() == 0) || !generations_.Clear(&space)) return false;
    making_ = false;
    ForgetSplits();
    gone = std::exchange(kept_, {});
    SetDue();
  }
  FreeKept(gone, space);
  return true;
}

// Not under a lock: it waits for the epochs.
void TopBackup::FreeKept(std::span<const pmem::Offset> leaves, pmem::Offset space) {
  std::vector<pmem::Offset> records;
  if (space != 0) records.push_back(space);
  for (const pmem::Offset leaf : leaves) {
    const FenceWords fence = FenceOf(*pool_.At<media::Bnode>(leaf));
    if (fence.kind() == FenceWords::kRecord) records.push_back(fence.record());
    leaves_.Free(leaf);
  }
  (void)reclaimer_.Drain(records);
}

void TopBackup::Recover(std::string_view engine) {
  lost_ = !generations_.Recover(engine).ok();
  SetDue();
}

void TopBackup::Forget(bool renew) {
  if (!lost_ && entries() == 0) return;
  pmem::Offset space;
  if (generations_.Clear(&space) && space != 0) slab_.Free(space);
  SetDue();
  if (renew) due_at_.store(0, std::memory_order_relaxed);
}

void TopBackup::KeepUnmarked() {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < entries(); ++i) {
    Entry entry;
    if (!Read(i, &entry)) continue;
    if (leaves_.Mark(entry.leaf) != pmem::UnitArena::MarkResult::kMarked) continue;
    const FenceWords fence = FenceOf(*pool_.At<media::Bnode>(entry.leaf));
    if (fence.kind() == FenceWords::kRecord) (void)slab_.Mark(fence.record());
    kept_.push_back(entry.leaf);
    changes_.fetch_add(1, std::memory_order_relaxed);
  }
}

std::vector<pmem::Offset> TopBackup::KeptLeaves() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace lodgekv::sptree
