#include "index/sptree/backup_work.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "index/pmem/crash_point.h"
#include "index/sptree/leaf_walk.h"

namespace lodgekv::sptree {

namespace {
// A step holds up the other tasks of the worker for some 100 us.
constexpr unsigned kLeavesOfStep = 256;
constexpr size_t kEntriesOfStep = 4096;
// A smaller tree is read as fast as its backup.
constexpr size_t kFewLeaves = 256;
}  // namespace

template <class C>
void BackupWork<C>::Request() {
  if (!tree_.parameters.backup || tree_.rest.unfinished() || tree_.pool.tight()) return;
  // Looked at first: every write comes here while one is posted and has not begun.
  if (tree_.backup_posted.load() || tree_.backup_posted.exchange(true)) return;
  absl::Cleanup not_posted = [this] { tree_.backup_posted.store(false); };
  auto work = std::make_shared<Work>();
  if (tree_.background.Post([&tree = tree_, work] { return Step(tree, *work); })) {
    std::move(not_posted).Cancel();
  }
}

template <class C>
absl::StatusOr<BackgroundWorker::Progress> BackupWork<C>::Step(TreeState<C>& tree, Work& work) {
  // However it ends, also by lack of memory: the next one that is due begins.
  absl::Cleanup end = [&tree] {
    tree.backup.Abandon();
    tree.backup_posted.store(false);
  };
  if (!work.begun) Begin(tree, work);
  if (work.update ? Update(tree, work) : Walk(tree, work)) {
    std::move(end).Cancel();
    return BackgroundWorker::Progress::kMore;
  }
  if (!work.update) tree.backup.NoteWalked(work.entries);
  LODGEKV_CRASH_POINT(tree.medium, "sptree.backup.1");
  (void)tree.backup.Replace(work.entries);
  LODGEKV_CRASH_POINT(tree.medium, "sptree.backup.2");
  return BackgroundWorker::Progress::kDone;
}

template <class C>
void BackupWork<C>::Begin(TreeState<C>& tree, Work& work) {
  work.begun = true;
  work.from = C::TextOf(C::MinusInfinity());
  TopBackup::Changes changes;
  tree.backup.Begin(&changes);
  work.entries.reserve(tree.LeafCount());  // behind Begin: if it throws, the backup is abandoned
  if (changes.whole) work.update.emplace(std::move(changes));
}

// False: all entries of the current backup were visited, or it was given up.
template <class C>
bool BackupWork<C>::Update(TreeState<C>& tree, Work& work) {
  const auto held = tree.backup.TryHold();
  if (!held.owns_lock()) return true;
  const size_t end = std::min(tree.backup.entries(), work.next + kEntriesOfStep);
  for (; work.next < end; ++work.next) {
    TopBackup::Entry entry;
    if (!tree.backup.Read(work.next, &entry)) {
      work.update.reset();
      work.entries.clear();
      return true;
    }
    work.update->Append(entry, &work.entries);
  }
  return end < tree.backup.entries();
}

// False: all leaves were visited.
template <class C>
bool BackupWork<C>::Walk(TreeState<C>& tree, Work& work) {
  unsigned left = kLeavesOfStep;
  bool more = false;
  (void)LeafWalk<C>(tree).ForEach(work.from, /*lock=*/false, [&](const auto& at) {
    TopBackup::AddAscending({C::WordOf(at.low, 0), tree.pool.OffsetOf(at.bnode)}, &work.entries);
    more = at.bounded;
    if (more) work.from = C::TextOf(at.high);
    return --left > 0;
  });
  return more;
}

template <class C>
void BackupWork<C>::WriteNow(const std::vector<Mnode<C>*>& leaves) {
  if (!tree_.parameters.backup || leaves.size() < kFewLeaves) return;
  std::vector<TopBackup::Entry> entries;
  entries.reserve(leaves.size());
  for (const Mnode<C>* leaf : leaves) {
    entries.push_back({C::WordOf(leaf->low, 0), tree_.pool.OffsetOf(leaf->bnode)});
  }
  TopBackup::Changes none;
  tree_.backup.Begin(&none);
  (void)tree_.backup.Replace(entries);
}

template class BackupWork<Fixed64Codec>;
template class BackupWork<BytesCodec>;

}  // namespace lodgekv::sptree
