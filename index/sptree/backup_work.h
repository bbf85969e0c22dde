// A new backup of the top layer (top_backup.h), written in the background when leaves enough have
// changed: the leaves are walked in steps, then the array is written at once. It blocks neither
// reads nor writes, and begins only when recovery has left nothing.
//
// Thread-safe. One runs at a time.
#pragma once

#include <string>
#include <vector>

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
    std::string from;  // the next leaf covers it
    std::vector<TopBackup::Entry> entries;
  };
  void Request();
  static absl::StatusOr<BackgroundWorker::Progress> Step(TreeState<C>& tree, Work& work);
  static bool Collect(TreeState<C>& tree, Work& work);

  TreeState<C>& tree_;
};

}  // namespace lodgekv::sptree
