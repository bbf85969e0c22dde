// TLBtree on the medium. docs/media_format.md draws these structs byte by byte; change them
// together and raise kMediaVersion.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/node/batch_intent.h"
#include "index/node/codec.h"
#include "index/node/slots_by_line.h"
#include "index/pmem/medium.h"

namespace lodgekv::tlbtree {

inline constexpr uint32_t kMediaVersion = 2;
inline constexpr unsigned kMaxHeight = 2;  // of a sub-index (TLBtree IV-A)

namespace media {

using pmem::Word;

struct Slot {
  Word key;
  Word value;
};

// The lower bound of a node's keys: of `fixed64` the key's word, of `bytes` the two words of a
// FenceWords (node/separator.h), whose record, if it has one, belongs to the leaf.
template <class C>
struct Fence {
  Word word;
};
template <>
struct Fence<BytesCodec> {
  Word word;
  Word meta;
};

// Leads to a node: its lower bound, and its offset with check bits over both (links.h).
template <class C>
struct Link {
  Fence<C> low;
  Word node;
};

// A node of a Wo-tree, 256 bytes: a leaf of pairs, or the root over up to kChildren + 1 leaves.
//
// Invariants
//  1. Only `state` (node_state.h) makes slots or children valid, orders them, and selects the
//     sibling. It changes by one store, and nothing valid is ever overwritten, but for the value
//     word of a slot.
//  2. sibling[alt] of a leaf leads to the leaf to its right, throughout the tree; 0: none. A
//     root has no sibling.
//  3. The keys of a leaf are not below its low fence, which never changes, and below that of its
//     sibling.
template <class C>
struct Node {
  static constexpr unsigned kHeaderBytes = 16;
  static constexpr unsigned kEntryBytes = pmem::kBlockBytes - kHeaderBytes - 2 * sizeof(Link<C>);
  static constexpr unsigned kSlots = kEntryBytes / sizeof(Slot);
  static constexpr unsigned kChildren = kEntryBytes / sizeof(Link<C>);

  Word state;
  Word leftmost;  // of a root: the child below all others, a checked word; of a leaf 0
  union {
    Slot slots[kSlots];
    Link<C> children[kChildren];
  };
  Link<C> sibling[2];  // in one line, the last
};
static_assert(sizeof(Node<Fixed64Codec>) == pmem::kBlockBytes);
static_assert(sizeof(Node<BytesCodec>) == pmem::kBlockBytes);
static_assert(Node<Fixed64Codec>::kSlots == 13 && Node<Fixed64Codec>::kChildren == 13);
static_assert(Node<BytesCodec>::kSlots == 12 && Node<BytesCodec>::kChildren == 8);
static_assert(offsetof(Node<Fixed64Codec>, sibling) == 224);
static_assert(offsetof(Node<BytesCodec>, sibling) == 208);

// A sub-index of the bottom layer. Everything that leads to a sub-index leads to its anchor.
//
// Invariants
//  1. `root` is a checked word: offset / 256 of the root : 40 | height : 2 | alt : 1 | dead : 1.
//     It changes by one store, which also selects next[alt], the anchor to the right (a checked
//     word; 0: none).
//  2. The lower bound never changes; `low_meta` is 0 in `fixed64`. A record of it belongs to the
//     anchor. `low_check` is a CRC32C over the pool's id, the anchor's offset and both words.
//  3. A dead anchor never changes again. The range of its sub-index belongs to the one to its left.
struct Anchor {
  Word root;
  Word next[2];
  Word low;
  Word low_meta;
  Word low_check;
  Word unused[2];
};
static_assert(sizeof(Anchor) == pmem::kLineBytes);

// The pool's engine area.
enum EngineWord : unsigned {
  kFirstAnchor = 0,  // a checked word; its sub-index is never removed
  kTop = 1,          // root of the top layer's generations (node/two_generations.h)
  kIntents = 2,      // roots of batches in progress (node/batch_intent.h)
  kEngineWords = kIntents + BatchIntents::kRoots
};

}  // namespace media

// The lines of a node.
inline constexpr unsigned kNodeLines = pmem::kBlockBytes / pmem::kLineBytes;
inline constexpr unsigned kSiblingLine = kNodeLines - 1;

// The line of a leaf that holds the slot; that of the state word is 0.
template <class C>
constexpr unsigned LineOfSlot(unsigned slot) {
  return static_cast<unsigned>((media::Node<C>::kHeaderBytes + sizeof(media::Slot) * slot) /
                               pmem::kLineBytes);
}
template <class C>
inline constexpr auto kSlotsOfLine = SlotsByLine<kNodeLines>(media::Node<C>::kSlots, LineOfSlot<C>);
// Entries of a root that are in the line of its state word.
template <class C>
inline constexpr unsigned kChildrenBesideState = (pmem::kLineBytes - media::Node<C>::kHeaderBytes) /
                                                 sizeof(media::Link<C>);

}  // namespace lodgekv::tlbtree
