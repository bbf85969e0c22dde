// The rebuild of the top layer in the background (TLBtree III): from the chain of anchors, beside
// the array in use, which it replaces at the end. It blocks neither reads nor writes.
//
// It begins when the steps that were made sideways since the last one have cost as much as building
// the array does: `rebuild_steps` for each of its entries. Or when many anchors are dead, whose
// space it frees, unless the last one came to nothing; or when recovery has found the array
// damaged.
//
// Request and NoteSteps are thread-safe. One rebuild runs at a time.
#pragma once

#include <vector>

#include "index/tlbtree/descent.h"

namespace lodgekv::tlbtree {

template <class C>
class TopRebuild {
 public:
  explicit TopRebuild(TreeState<C>& tree) : tree_(tree) {}

  // A writer came to the key's leaf by so many steps sideways.
  void NoteSteps(const typename C::Key& key, unsigned anchor_steps, unsigned leaf_steps) const;
  // Posts a rebuild if it is due. Called without locks, not inside an EpochGuard.
  void RequestIfDue();
  // Posts one, unless one is posted.
  void Request();

 private:
  using Entry = typename TopLayer<C>::Entry;
  // One rebuild, from its first step to its last.
  struct Work {
    bool begun = false;
    pmem::Offset at = 0;  // the next anchor
    std::vector<Entry> entries;
    std::vector<pmem::Offset> dropped;
    bool replaced = false;  // the array in use, by this one
  };
  static absl::StatusOr<BackgroundWorker::Progress> Step(TreeState<C>& tree, Work& work);
  static absl::Status Collect(TreeState<C>& tree, Work& work);
  static void Finish(TreeState<C>& tree, Work& work);
  static void FreeDropped(TreeState<C>& tree, const std::vector<pmem::Offset>& dropped);
  bool IsDue() const;
  uint64_t MostDead() const;

  TreeState<C>& tree_;
};

}  // namespace lodgekv::tlbtree
