// Staging and commit of a group; its crash table: README.md, Group.
#include <algorithm>

#include "index/lbtree/leaf_lines.h"
#include "index/lbtree/write_group.h"
#include "index/lbtree/writes.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

template <class C>
WriteGroup<C>::WriteGroup(PairWriter<C>& writer, bool of_batch)
    : tree_(writer.state()),
      group_(of_batch),
      leaves_(tree_, group_),
      splitter_(tree_, group_, leaves_),
      writer_(tree_) {}

template <class C>
bool WriteGroup<C>::Find(const Key& key, Seen seen) {
  leaf_ = leaves_.Join(key, seen);
  return leaf_ != nullptr;
}

template <class C>
Joining WriteGroup<C>::Remove() {
  GroupLeaf<C>& leaf = *leaf_;
  if (tree_.parameters.unlink_leaves &&
      HoldsOnePair(leaf.locked.leaf, tree_.blocks, leaf.block, leaf.header)) {
    return Joining::kAlone;
  }
  Worker& worker = tree_.workers.Current();
  Drop(worker, leaf);
  splitter_.StoreNewHeader(leaf);
  group_.changes = true;
  worker.counters.Add(WorkerCounters::kDeletes);
  return Joining::kJoined;
}

// There is room now.
template <class C>
void WriteGroup<C>::Put(Pair pair) {
  GroupLeaf<C>& leaf = *leaf_;
  group_.changes = true;
  if (!splitter_.HasRoom(leaf)) return ChangeInSlot(leaf, pair);
  Worker& worker = tree_.workers.Current();
  media::Block& block = leaf.locked.leaf[leaf.block];
  const bool update = leaf.locked.place.found();
  if (update) Drop(worker, leaf);
  // An update moves nothing: until the commit each entry that moves has two slots.
  const NewPair added{pair, FingerprintOf(tree_.codec.HashOf(pair))};
  const unsigned line = writer_.StageInsert(worker, block, leaf.header_line, added, leaf.committed,
                                            !update, &leaf.header);
  const bool beside = line == leaf.header_line;
  if (!beside) leaf.lines_to_flush |= LeafLine(leaf.block, line);
  leaf.staged = true;
  splitter_.StoreNewHeader(leaf);
  group_.fences_first |= !beside || tree_.HasRecord(pair) || tree_.medium.strict_order();
  if (update) {
    worker.counters.Add(WorkerCounters::kUpdates);
  } else {
    writer_.CountInsert(worker, beside);
  }
}

// The leaf's only change in this pass.
template <class C>
void WriteGroup<C>::ChangeInSlot(GroupLeaf<C>& leaf, Pair pair) {
  const Place place = leaf.locked.place;
  Worker& worker = tree_.workers.Current();
  leaf.value = &place.at->value;
  leaf.new_value = pair.value;
  worker.replaced.push_back(leaf.value->LoadRelaxed());
  group_.fences_first |=
      tree_.HasRecord(pair) && !tree_.medium.Canary("lbtree.group.value_not_fenced");
  worker.counters.Add(WorkerCounters::kUpdates);
}

// The pair found is invalid once the group is committed.
template <class C>
void WriteGroup<C>::Drop(Worker& worker, GroupLeaf<C>& leaf) {
  worker.replaced.push_back(leaf.locked.FoundPair().value);
  leaf.header.Clear(uint32_t{1} << leaf.locked.place.slot);
}

// Releases the locks that no later pass needs.
template <class C>
void WriteGroup<C>::Commit() {
  Worker& worker = tree_.workers.Current();
  if (group_.changes) {
    PersistStaged();
    CommitLeaves();
    worker.counters.Add(WorkerCounters::kGroups);
  }
  leaves_.LetGo();
  LODGEKV_CRASH_POINT(tree_.medium, "lbtree.group.4");
  if (!tree_.medium.Canary("lbtree.group.records_stay")) {
    for (const uint64_t value_word : worker.replaced) tree_.RetireRecord(worker, value_word);
  }
  worker.replaced.clear();
}

template <class C>
void WriteGroup<C>::PersistStaged() {
  for (const GroupLeaf<C>& leaf : group_.leaves) {
    if (!leaf.changes()) continue;
    if (leaf.staged) {
      const uint64_t word1 = leaf.header.words[1];
      if (leaf.words[1].LoadRelaxed() != word1) tree_.medium.Store(leaf.words[1], word1);
      if (tree_.medium.strict_order()) tree_.medium.FlushLine(leaf.words);
    }
    tree_.medium.FlushLines(leaf.locked.leaf, leaf.lines_to_flush);
  }
  for (const NewLeaf<C>& leaf : group_.new_leaves) {
    if (tree_.medium.Canary("lbtree.group.leaf_not_flushed")) break;
    tree_.medium.FlushLines(leaf.leaf, LinesInUse(leaf.leaf, tree_.blocks));
  }
  LODGEKV_CRASH_POINT(tree_.medium, "lbtree.group.1");
  if (group_.fences_first) tree_.medium.OrderStores();
  LODGEKV_CRASH_POINT(tree_.medium, "lbtree.group.2");
}

template <class C>
void WriteGroup<C>::CommitLeaves() {
  GroupLeaf<C>* changing[Group<C>::kMostLeaves];
  size_t count = 0;
  for (GroupLeaf<C>& leaf : group_.leaves) {
    if (leaf.changes()) changing[count++] = &leaf;
  }
  const size_t at_once =
      tree_.locks.readers_wait() ? Group<C>::kMostPublished : Group<C>::kMostLeaves;
  for (size_t i = 0; i < count; i += at_once) {
    CommitTogether(std::span(changing + i, std::min(at_once, count - i)));
  }
}

// One NAW for each leaf. Two leaves never share a lock.
template <class C>
void WriteGroup<C>::CommitTogether(std::span<GroupLeaf<C>*> leaves) {
  for (const GroupLeaf<C>* leaf : leaves) {
    tree_.locks.BeginCommit(*leaf->locked.lock, leaf->commit());
    tree_.medium.StoreOrdered(leaf->commit(), leaf->commit_word());
    tree_.medium.FlushLine(&leaf->commit());
  }
  LODGEKV_CRASH_POINT(tree_.medium, "lbtree.group.3");
  tree_.medium.Fence();
  for (GroupLeaf<C>* leaf : leaves) {
    tree_.locks.BeginPublish(*leaf->locked.lock);
    splitter_.PublishNewLeaves(*leaf);
    tree_.locks.EndPublish(*leaf->locked.lock);
  }
}

template class WriteGroup<Fixed64Codec>;
template class WriteGroup<BytesCodec>;

}  // namespace lodgekv::lbtree

namespace lodgekv {

template class GroupWrites<Fixed64Codec, lbtree::PairWriter<Fixed64Codec>>;
template class GroupWrites<BytesCodec, lbtree::PairWriter<BytesCodec>>;

}  // namespace lodgekv
