// A new backup of the top layer (top_backup.h), written in the background when leaves enough have
// changed: its entries are collected in steps, then the array is written at once. They come from
// the current backup and the changes since (backup_update.h): then no leaf is read. Where not all
// of those are known, as after the start, the leaves are walked. It blocks neither reads nor
// writes, and begins only when recovery has left nothing.
//
// Thread-safe. One runs at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "index/sptree/backup_update.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class BackupWork {
 public:
  explicit BackupWork(TreeState<C>& tree) : tree_(tree) {}

  // Posts one if it is due. Called without locks, not inside an EpochGuard.
  void RequestIfDue() {
    if (tree_.backup.IsDue()) [[unlikely]]
      Request();
  }
  // For a tree that nobody else uses: of these leaves, now.
  void WriteNow(const std::vector<Mnode<C>*>& leaves);

 private:
  // One backup, from its first step to its last.
  struct Work {
    bool begun = false;
    std::optional<BackupUpdate> update;  // none: the leaves are walked
    size_t next = 0;                     // the next entry of the current backup
    std::string from;                    // the next leaf covers it
    std::vector<TopBackup::Entry> entries;
  };
  void Request();
  static absl::StatusOr<BackgroundWorker::Progress> Step(TreeState<C>& tree, Work& work);
  static void Begin(TreeState<C>& tree, Work& work);
  static bool Update(TreeState<C>& tree, Work& work);
  static bool Walk(TreeState<C>& tree, Work& work);

  TreeState<C>& tree_;
};

}  // namespace lodgekv::sptree
