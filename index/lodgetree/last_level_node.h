// The last-level internal node with its surrogate buffer (LodgeTree III-A, Fig. 4).
//
// 29 slots of {word, value}. The Index Part [0, index_count) holds the leaves' low fences,
// ascending, and the leaves; the Buffer Part [buf_start, 29) holds buffered pairs, the oldest at
// the end. buf_start is 29 - buf_count: the parts grow towards each other, so every slot not used
// for a leaf is available as buffer.
//
// Invariants
//  1. index_count >= 1; index_count + buf_count <= node_slots (an option, at most 29).
//  2. leaf_count[i] is the number of pairs in leaf i for i < index_count; for a buffered pair it is
//     the index of the leaf that its key belongs to (LodgeTree III-B, Fig. 5).
//  3. buf_ver[i] is the log that holds the buffered pair's entry; while it is buffered, it is
//     counted as valid there (LodgeTree III-D).
//  4. A key is buffered at most once, and the buffered pair is newer than the leaf's.
//  5. mirrors[i] has the fingerprints, bitmap and use_n of leaf i as last published, and row i of
//     `records` the records of its slots (record_mirror.h), unless it is null.
//  6. lock covers the node and its leaves (LodgeTree III-A); readers use its version.
//  7. Words are taken from the key bytes after `prefix`, as in node/inner_tree.h; a node without a
//     right bound compares the prefix first.
//
// Methods that change a node change DRAM only. The caller holds its lock. Changes that a reader
// could see half done happen between BeginPublish and EndPublish. The caller calls these, except
// for InsertBuffered and ReplaceBuffered, which are complete changes and call them themselves.
//
// The paper's node cannot hold in 512 bytes what it lists; counts, versions and mirrors are side
// arrays here.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "index/lodgetree/layout.h"
#include "index/lodgetree/open_commits.h"
#include "index/lodgetree/record_mirror.h"
#include "index/node/codec.h"
#include "index/node/prefetch.h"
#include "index/node/search_form.h"
#include "index/node/tag_match.h"
#include "index/node/version_lock.h"
#include "index/pmem/pool.h"

namespace lodgekv::lodgetree {

struct alignas(32) LeafMirror {
  static constexpr uint32_t kUseN = uint32_t{1} << 31;
  uint8_t fingerprints[28];
  uint32_t bits;  // slots, and kUseN

  uint32_t slots() const { return bits & static_cast<uint32_t>(media::kBitmapMask); }
  unsigned count() const { return static_cast<unsigned>(std::popcount(slots())); }
  unsigned use_n() const { return bits >> 31; }
  // Slots whose fingerprint is `fingerprint`. All of a mirror is matched by one vector; `bits` is
  // no slot's.
  uint32_t Candidates(uint8_t fingerprint) const {
    return static_cast<uint32_t>(MatchTags<sizeof(LeafMirror)>(fingerprints, fingerprint)) &
           slots();
  }
  // The leaf's commit word.
  uint64_t CommitWord() const {
    return CheckedWord(slots() | ((bits & kUseN) != 0 ? media::kUseN : 0));
  }
};
static_assert(sizeof(LeafMirror) == 32);

// What `bytes` keys need besides the words.
template <class Separator, bool kRecords>
struct NodeSeparators {
  Separator low[kNodeSlots];       // low fences of the Index Part's leaves, complete
  uint64_t key_words[kNodeSlots];  // of the Buffer Part's pairs: the slot's key word
};
template <class Separator>
struct NodeSeparators<Separator, false> {};
// The mirror belongs to the node for good, also when its memory is reused for another node. Null:
// the tree has none.
template <bool kRecords>
struct NodeRecords {
  RecordMirror* mirror;
};
template <>
struct NodeRecords<false> {};

// A leaf that a split has written, and that no node refers to yet.
template <class Separator>
struct WrittenLeaf {
  pmem::Offset offset;
  Separator separator;
  LeafMirror mirror;
  RecordRow records;
};

template <class C>
struct alignas(64) LastLevelNode {
  using Key = typename C::Key;
  using Separator = typename C::Separator;
  using NewLeaf = WrittenLeaf<Separator>;

  // The first four lines: all that a search reads.
  VersionLock lock;
  uint8_t index_count;
  uint8_t buf_count;
  uint8_t split_m;  // M: nodes made by the last split; 0 before the first
  bool bounded;     // `high` is set: there is a node to the right
  uint32_t prefix;
  Separator high;
  uint64_t words[kNodeSlots];

  uint32_t ps_counter;  // time of the split before the last one (LodgeTree III-C)
  uint32_t ls_counter;  // time of the last split
  uint32_t tombstones;  // bit i: buffered pair i is a delete
  bool sparse;          // pairs were deleted: neighbouring leaves may be merged
  uint8_t held;         // queues that it is in (holding_nodes.h)
  CommitMark commits;   // of its leaves' last commits
  std::atomic<LastLevelNode*> next_with_deletes;
  uint64_t values[kNodeSlots];

  uint8_t leaf_count[32];
  uint32_t buf_ver[kNodeSlots];
  uint32_t full_at;  // version at which its buffer was full and only splits could drain it
  std::atomic<LastLevelNode*> next_with_puts;
  [[no_unique_address]] NodeRecords<C::kRecords> records;
  LeafMirror mirrors[kNodeSlots];
  [[no_unique_address]] NodeSeparators<Separator, C::kRecords> separators;

  unsigned buf_start() const { return kNodeSlots - buf_count; }
  uint32_t IndexMask() const { return (uint32_t{1} << index_count) - 1; }
  uint32_t BufferMask() const { return ((uint32_t{1} << buf_count) - 1) << buf_start(); }
  // Buffered pairs whose leaf is `leaf`.
  uint32_t GroupMask(unsigned leaf) const {
    const uint64_t same = MatchTags<sizeof(leaf_count)>(leaf_count, static_cast<uint8_t>(leaf));
    return static_cast<uint32_t>(same) & BufferMask();
  }

  Separator LowOf(unsigned leaf) const {
    if constexpr (C::kRecords) {
      return separators.low[leaf];
    } else {
      return words[leaf];
    }
  }
  Separator low() const { return LowOf(0); }
  Pair BufferedPair(unsigned i) const {
    if constexpr (C::kRecords) {
      return {separators.key_words[i], values[i]};
    } else {
      return {words[i], values[i]};
    }
  }
  // For a node that may be left of the key's node: whether it is not.
  bool EndsAfter(const Key& key) const { return !bounded || C::CompareToKey(high, key) > 0; }
  // For a walk over the nodes. Separators ascend, except those of damaged keys.
  bool GoesOnAfter(const Key& from) const { return bounded && C::CompareToKey(high, from) > 0; }
  bool IsTombstone(unsigned i) const { return (tombstones >> i & 1) != 0; }
  // Null: the leaves' records are not mirrored.
  RecordMirror* record_mirror() const {
    if constexpr (C::kRecords) {
      return records.mirror;
    } else {
      return nullptr;
    }
  }

  struct Position {
    unsigned leaf;  // whose range contains the key
    uint32_t hits;  // buffered pairs that may have the key
  };
  // May read a node that is changing: the caller validates, or holds the lock. `Form`:
  // node/search_form.h.
  template <class Form = SearchByPointer>
  Position Search(const Key& key) const;

  // --- the Buffer Part ---
  // Buffers a pair for `leaf` whose log entry, in `log`, is durable.
  void InsertBuffered(unsigned leaf, const Key& key, Pair pair, uint32_t log, bool tombstone) {
    const unsigned i = buf_start() - 1;
    lock.BeginPublish();
    words[i] = C::WordOf(key, prefix);
    if constexpr (C::kRecords) separators.key_words[i] = pair.key;
    values[i] = pair.value;
    leaf_count[i] = static_cast<uint8_t>(leaf);
    buf_ver[i] = log;
    SetTombstone(i, tombstone);
    ++buf_count;
    lock.EndPublish();
  }
  // Replaces the buffered pair `at` by a newer one of the same key.
  void ReplaceBuffered(unsigned at, uint64_t value, uint32_t log, bool tombstone) {
    lock.BeginPublish();
    values[at] = value;
    buf_ver[at] = log;
    SetTombstone(at, tombstone);
    lock.EndPublish();
  }
  // Removes drained pairs and closes the gaps, keeping the order.
  void DropDrained(uint32_t drained);

  // --- the Index Part ---
  // Sets the fingerprints of the slots in `filled`; the others stay.
  void SetMirror(unsigned leaf, uint32_t bits, uint32_t filled, const uint8_t* fingerprints) {
    LeafMirror& mirror = mirrors[leaf];
    for (uint32_t left = filled; left != 0; left &= left - 1) {
      const int slot = std::countr_zero(left);
      mirror.fingerprints[slot] = fingerprints[slot];
    }
    mirror.bits = bits;
    leaf_count[leaf] = static_cast<uint8_t>(mirror.count());
  }
  // Sets the mirrored records of the slots in `changed`; the others stay.
  void SetRecords(unsigned leaf, uint32_t changed, const uint64_t* record_words) {
    RecordMirror* mirror = record_mirror();
    if (mirror == nullptr) return;
    for (uint32_t left = changed; left != 0; left &= left - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(left));
      mirror->rows[leaf].Set(slot, record_words[slot]);
    }
  }
  void InsertLeaf(unsigned at, const NewLeaf& leaf, const C& codec);
  // The caller has released the leaf's separator.
  void RemoveLeaf(unsigned leaf, const C& codec);

  // --- parts of nodes ---
  // Appends leaves [first, last) of `whole` and the pairs buffered for them. Call Rebase before the
  // words are used.
  void AddPart(const LastLevelNode& whole, unsigned first, unsigned last);
  // Keeps only these leaves. Together the parts take over everything that `whole` owns.
  void BecomePart(const LastLevelNode& whole, unsigned first, unsigned last, const C& codec);
  void Rebase(const C& codec);

  // What a reader accesses; a writer also accesses the counts and versions after it, and changes
  // them.
  void PrefetchForRead() const {
    const char* line = reinterpret_cast<const char*>(this);
    for (unsigned i = 0; i < 8; ++i) __builtin_prefetch(line + 64 * i, 0, 3);
    // One of the mirrors is needed too, but only the search tells which.
    constexpr size_t kEnd = offsetof(LastLevelNode, mirrors) + sizeof(mirrors);
    for (size_t at = 640; at < kEnd; at += 64) __builtin_prefetch(line + at, 0, 3);
  }
  void PrefetchForWrite() const {
    const char* line = reinterpret_cast<const char*>(this);
    for (unsigned i = 0; i < 11; ++i) __builtin_prefetch(line + 64 * i, 1, 3);
  }
  // While the node's first lines are on their way: the search tells which mirror is needed.
  void FetchMirrors() const {
    const char* at = reinterpret_cast<const char*>(&mirrors);
    for (size_t i = 0; i < sizeof(mirrors); i += 64) Prefetch(at + i);
  }
  // The key words that the next buffered pair needs, or (`all`) those of the buffered ones too. The
  // node may be changing.
  void PrefetchKeyWords(bool all) const {
    if constexpr (C::kRecords) {
      const char* at = reinterpret_cast<const char*>(separators.key_words + buf_start()) - 8;
      const char* end = reinterpret_cast<const char*>(separators.key_words + kNodeSlots);
      do {
        __builtin_prefetch(at, 1, 3);
        at += 64;
      } while (all && at < end);
    }
  }

 private:
  void SetTombstone(unsigned i, bool tombstone) {
    const uint32_t bit = uint32_t{1} << i;
    tombstones = tombstone ? tombstones | bit : tombstones & ~bit;
  }
  unsigned LeafOfTie(const Key& key, uint32_t less, uint32_t equal) const;
};
static_assert(offsetof(LastLevelNode<Fixed64Codec>, values) == 280);
static_assert(offsetof(LastLevelNode<Fixed64Codec>, mirrors) == 672);
static_assert(sizeof(LastLevelNode<Fixed64Codec>) == 1600);
static_assert(offsetof(LastLevelNode<BytesCodec>, mirrors) == 704);
static_assert(sizeof(LastLevelNode<BytesCodec>) == 2112);

// Decides among index words equal to the key's by their separators.
template <class C>
unsigned LastLevelNode<C>::LeafOfTie(const Key& key, uint32_t less, uint32_t equal) const {
  if constexpr (!C::kRecords) less |= equal;
  unsigned rank = static_cast<unsigned>(std::popcount(less));
  if constexpr (C::kRecords) {
    for (; equal != 0; equal &= equal - 1) {
      const Separator separator = separators.low[std::countr_zero(equal)];
      if (separator == nullptr || C::CompareToKey(separator, key) > 0) break;
      ++rank;
    }
  }
  return rank == 0 ? 0 : rank - 1;
}

template <class C>
template <class Form>
typename LastLevelNode<C>::Position LastLevelNode<C>::Search(const Key& key) const {
  // The three words of the header come first: the search runs over whole lines.
  const WordMasks masks =
      Form::Compare(reinterpret_cast<const uint64_t*>(this), C::WordOf(key, prefix));
  // The two counts may be of different moments, but none leads out of the node.
  const unsigned leaves = index_count;
  const uint32_t less = _bzhi_u32(masks.less >> 3, leaves);
  const uint32_t equal = masks.equal >> 3;
  const uint32_t hits = equal ^ _bzhi_u32(equal, buf_start());
  if constexpr (C::kRecords) {
    if (!bounded && prefix != 0 && separators.low[0] != nullptr) {
      const std::string_view common = separators.low[0]->view().substr(0, prefix);
      if (key.text.substr(0, common.size()) != common) {
        return {leaves == 0 ? 0 : leaves - 1, hits};
      }
    }
  }
  return {LeafOfTie(key, less, _bzhi_u32(equal, leaves)), hits};
}

}  // namespace lodgekv::lodgetree
