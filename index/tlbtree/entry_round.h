// Entries above new leaves, of several sub-indices at once, which share two fences: a root takes
// more entries, a leaf gets a root, or a full sub-index splits (TLBtree III, Fig. 3). Everything
// that is new is flushed, and fenced; then each sub-index changes by one store, of its root's state
// word or of its anchor's root word. The protocols are the crash tables Entry, Second level and
// Sub-index split in README.md.
//
// INVARIANT: an entry leads to a leaf that is linked, durably: the caller has found it in the
// chain.
//
// Used by one thread, which has locked the anchors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "index/tlbtree/anchor_writer.h"
#include "index/tlbtree/node_image.h"

namespace lodgekv::tlbtree {

template <class C>
class EntryRound {
 public:
  using Node = media::Node<C>;
  static constexpr size_t kMost = 32;                         // sub-indices
  static constexpr size_t kMostLeaves = Node::kChildren + 1;  // of one

  explicit EntryRound(TreeState<C>& tree) : tree_(tree), anchors_(tree) {}

  bool full() const { return changes_.size() == kMost; }
  bool empty() const { return changes_.empty(); }
  // Leaves that one change of the sub-index may list, at least one.
  size_t MostOf(const AnchorPlace& place) const;
  // Neighbouring leaves of the chain, at most MostOf, which have no entry yet: in the gap where the
  // target is. The round has no other change of the sub-index, and the lock is the round's from
  // here on. False: the pool is full, nothing has changed, and the lock is the caller's.
  bool Stage(const AnchorPlace& place, const Target<C>& target, std::span<const LinkTo> leaves);
  // Durable on return, and all is unlocked.
  void Commit();

 private:
  enum class Kind : uint8_t { kEntries, kGrowth, kSplit };
  // Of one sub-index.
  struct Change {
    AnchorPlace place;
    Node* root = nullptr;  // not null: more entries, and nothing else
    NodeState state;       // of the root
    AnchorChange anchor;
    pmem::Offset replaced = 0;  // an old root

    Kind kind() const {
      if (root != nullptr) return Kind::kEntries;
      return anchor.next.has_value() ? Kind::kSplit : Kind::kGrowth;
    }
  };
  // A sub-index that is taken apart: its leaves' links, in order.
  struct Children {
    std::array<LinkTo, Node::kChildren + 1 + kMostLeaves> links;
    size_t count = 0;

    void Add(const LinkTo& link) { links[count++] = link; }
    std::span<const LinkTo> all() const { return {links.data(), count}; }
  };

  void StageEntries(const AnchorPlace& place, unsigned at, std::span<const LinkTo> leaves);
  bool StageGrowth(const AnchorPlace& place, std::span<const LinkTo> leaves);
  bool StageSplit(const AnchorPlace& place, unsigned at, std::span<const LinkTo> leaves);
  bool Divide(const AnchorPlace& place, const Children& children, size_t stay, bool rebuilt);
  pmem::Offset NewAnchor(const AnchorPlace& left, const LinkTo& first, pmem::Offset root,
                         unsigned height);
  bool Has(Kind kind) const;
  void StoreCommits();
  void Publish(Change& change);

  TreeState<C>& tree_;
  AnchorWriter<C> anchors_;
  bool fences_first_ = false;
  absl::InlinedVector<Change, kMost> changes_;
};

}  // namespace lodgekv::tlbtree
