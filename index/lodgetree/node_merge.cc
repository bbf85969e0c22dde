#include "index/lodgetree/node_merge.h"

#include <string>
#include <utility>

#include "index/lodgetree/commit_closer.h"
#include "index/lodgetree/leaf_merge.h"
#include "index/node/inner_tree_shrink.h"

namespace lodgekv::lodgetree {

// Whether both fit into a node that will not split soon.
template <class C>
bool NodeMerger<C>::CanJoin(const Node* left, const Node* right) const {
  const unsigned leaves = unsigned{left->index_count} + right->index_count;
  return leaves <= parts_.parameters.node_slots / 2 &&
         leaves + left->buf_count + right->buf_count < parts_.parameters.node_slots;
}

template <class C>
bool NodeMerger<C>::CanEmpty(const Node* left, const Node* right) const {
  const unsigned last = left->index_count - 1u;
  return right->index_count == 1 && right->buf_count == 0 && left->GroupMask(last) == 0 &&
         LeafMerger<C>(parts_, worker_).AreSparse(left->leaf_count[last], right->leaf_count[0]);
}

// The left one takes over the leaves of the right one if there is room, or its last leaf takes over
// the pairs of the right one's only leaf.
template <class C>
auto NodeMerger<C>::MergeNodes(HeldNodes<C>& held, Node* left, Node* right) -> Attempt {
  // Separators of damaged keys may be out of order, and lead to a distant node.
  if (!left->bounded || C::Compare(left->high, right->low()) != 0) return Attempt::kCannot;
  const bool join = CanJoin(left, right);
  if (!join && !CanEmpty(left, right)) return Attempt::kCannot;
  CommitCloser<C> closer(parts_, worker_);
  closer.CloseNode(left);
  closer.CloseNode(right);
  LeafMerger<C> leaves(parts_, worker_);
  const std::string text = C::TextOf(right->low());
  const Key low = C::MakeKey(text);
  typename Inner::Node* parent;
  const Attempt attempt = parts_.tree.LockForRemoval(low, right, Inner::Heir::kLeft, &parent);
  if (attempt != Attempt::kDone) return attempt;
  const uint64_t watermark = parts_.pool.PeekSequence() - 1;
  if (!join && !leaves.Commit(left, left->index_count - 1u, right, 0, watermark)) {
    parts_.tree.Unlock(parent);
    return Attempt::kCannot;
  }
  const pmem::Offset emptied = right->values[0];
  left->lock.BeginPublish();
  right->lock.BeginPublish();
  parts_.tree.RemoveAndUnlock(parent, low);
  C::Release(parts_.texts, left->high);
  left->high = right->high;
  left->bounded = right->bounded;
  if (join) {
    left->AddPart(*right, 0, right->index_count);
    parts_.holders.Note(left);
    right->buf_count = 0;
  } else {
    leaves.Publish(left);
    C::Release(parts_.texts, right->low());
  }
  left->Rebase(parts_.codec);
  right->lock.EndPublish();
  left->lock.EndPublish();
  if (!join) leaves.FreeLeaf(emptied);
  held.Unlock(right);
  parts_.nodes.Free(right);
  // Otherwise an empty leaf of the right one would stay until something is drained here.
  leaves.MergeSparseLeaves(left, watermark);
  if (!parts_.tree.Shrink(low)) worker_.sparse_nodes.push_back(text);
  return Attempt::kDone;
}

template <class C>
auto NodeMerger<C>::MergeWith(HeldNodes<C>& held, const Key& key, bool into_left) -> Attempt {
  Node* node = held.TryLock(key, Inner::Seek::kCovering);
  if (node == nullptr) return Attempt::kBusy;
  if (!LeafMerger<C>(parts_, worker_).IsSparse(node) || (!into_left && !node->bounded))
    return Attempt::kCannot;
  Node* other = into_left ? held.TryLock(C::KeyOf(node->low()), Inner::Seek::kBefore)
                          : held.TryLock(C::KeyOf(node->high), Inner::Seek::kCovering);
  if (other == nullptr) return Attempt::kBusy;
  if (other == node) return Attempt::kCannot;  // there is none to its left
  return into_left ? MergeNodes(held, other, node) : MergeNodes(held, node, other);
}

// If the node that covers `key` is sparse, it gives its leaves to the node to its left, or takes
// over those of the one to its right.
template <class C>
auto NodeMerger<C>::MergeWithNeighbour(const Key& key) -> Attempt {
  bool busy = false;
  for (const bool into_left : {true, false}) {
    HeldNodes<C> held(parts_);
    const Attempt attempt = MergeWith(held, key, into_left);
    held.UnlockAll();
    if (attempt == Attempt::kDone) return attempt;
    busy |= attempt == Attempt::kBusy;
  }
  // Perhaps only inner nodes can be merged, if those above were busy.
  busy |= !parts_.tree.Shrink(key);
  return busy ? Attempt::kBusy : Attempt::kCannot;
}

template <class C>
void NodeMerger<C>::MergeSparseNodes() {
  constexpr size_t kMostKept = 64;
  auto& noted = worker_.sparse_nodes;
  size_t kept = 0;
  for (size_t i = 0; i < noted.size(); ++i) {
    std::string low = std::move(noted[i]);
    const Attempt attempt = MergeWithNeighbour(C::MakeKey(low));  // may note others
    if (attempt == Attempt::kBusy && kept < kMostKept) noted[kept++] = std::move(low);
  }
  noted.resize(kept);
}

template class NodeMerger<Fixed64Codec>;
template class NodeMerger<BytesCodec>;

}  // namespace lodgekv::lodgetree
