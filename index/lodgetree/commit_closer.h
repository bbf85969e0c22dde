// Closes open commits (open_commits.h): after a fence of the thread, or by one, where what follows
// depends on them. README, Open commits.
//
// Used by one thread.
#pragma once

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
  // Of closed commits.
  void RetireUnlinked() {
    for (const uint64_t value_word : worker_.open_commits.unlinked) {
      worker_.RetireRecord(parts_.slab, value_word);
    }
    worker_.open_commits.unlinked.clear();
  }
  // Call, with the node's lock, before its leaves change, or belong to another node: a slot that an
  // open commit frees is still valid on the medium, a next pointer that it replaces still leads on,
  // and a leaf that it has created is reached only through it. Under strict order the words are
  // fenced, and only watermarks are open, which only rise.
  void CloseNode(Node* node) {
    if (!parts_.medium.strict_order() && MayBeOpen(node)) [[unlikely]]
      CloseOpenNode(node);
  }

 private:
  bool MayBeOpen(const Node* node) const {
    const Worker<C>* opener = parts_.workers.Of(node->commits.worker);
    return opener != nullptr && opener->open_commits.MayBeOpen(node->commits);
  }
  void Close();
  void CloseOpenNode(Node* node);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
