// Closes open commits (open_commits.h): after a fence of the thread, or by one, where what follows
// depends on them. README, Open commits.
//
// Used by one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

template <class C>
class CommitCloser {
 public:
  using Node = LastLevelNode<C>;

  CommitCloser(TreeParts<C>& parts, Worker<C>& worker) : parts_(parts), worker_(worker) {}

  // The thread has just fenced.
  void AfterFence() {
    if (worker_.open_commits.any()) [[unlikely]]
      Close();
  }
  // Fences, if there are any.
  void CloseNow();
  // Call, with the node's lock, before its leaves change, or belong to another node: a slot that an
  // open commit frees is still valid on the medium, a next pointer that it replaces still leads on,
  // a leaf that it has created is reached only through it, and its watermark is yet to be stored.
  void CloseNode(Node* node) {
    if (MayBeOpen(node)) [[unlikely]]
      CloseOpenNode(node);
  }
  // The works' commits are stored and flushed, and opened.
  void OweWatermarks(std::span<const LeafWork> works);
  void RetireUnlinked(std::vector<uint64_t>& unlinked);

 private:
  bool MayBeOpen(const Node* node) const {
    const Worker<C>* opener = parts_.workers.Of(node->commits.worker);
    return opener != nullptr && opener->open_commits.MayBeOpen(node->commits);
  }
  void Close();
  bool FlushIfOfOther(const Superseded& commits);
  void StoreWatermark(const OwedWatermark& owed);
  void GiveUp(Superseded& commits);
  void CloseOpenNode(Node* node);
  void CloseOthers(Node* node);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
