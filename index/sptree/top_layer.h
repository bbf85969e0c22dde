// The top layer (SPTree 4.1): finds the Mnode that covers a key. All that the engine knows of its
// kind is here: the adaptive radix tree of index/art, in DRAM, with optimistic lock coupling (4.2).
//
// It holds one entry for each Mnode, under its `low`, which it reads there: it has no copies of
// keys and owns none.
//
// What it finds is proven to cover the key at the version returned: whoever locks the Mnode as of
// that version has the right one. The radix tree promises less (art/floor_search.h): that the Mnode
// was in the tree when its version was taken, and that it was near. So its bounds are compared with
// the key under that version, and if they do not fit, the search begins again.
//  - An Mnode that is in the tree changes its bounds only while it publishes, so bounds that were
//    read as of the version were its bounds when that was taken.
//  - One that was removed, or is being made again for another range, is not in the tree; one that
//    is being removed publishes until it is out (leaf_merge.cc).
// A search does not begin again for ever: while no Mnode publishes, the tree and the bounds agree,
// but for a split Mnode's right one, which is in the tree before the left one's `high` changes.
//
// Readers need no epochs for its sake: memory of its nodes, of Mnodes and of texts keeps its use
// (art/node_store.h, node/node_pool.h, node/separator_texts.h).
//
// Thread-safe. Insert and Remove are for the holder of the Mnodes' locks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "index/art/build.h"
#include "index/art/floor_each.h"
#include "index/art/tree.h"
#include "index/node/optimistic_section.h"
#include "index/node/search_form.h"
#include "index/sptree/mnode.h"

namespace lodgekv::sptree {

// An Mnode's `low` in the form of the radix tree.
template <class C>
struct LowOf {
  auto operator()(const Mnode<C>* mnode) const {
    if constexpr (C::kRecords) {
      return mnode->low->view();
    } else {
      return mnode->low;
    }
  }
  void Prefetch(const Mnode<C>* mnode) const { mnode->PrefetchForRead(); }
};

// Which leaf is wanted.
template <class C>
struct Aim {
  enum Kind : uint8_t { kCover, kBefore, kLast };
  Kind kind;
  const typename C::Key* key;  // of kLast: null

  // Whether the leaf is not to the left of one with this low fence.
  bool Reaches(typename C::Separator low) const {
    if (kind == kLast) return true;
    const int order = C::CompareToKey(low, *key);
    return kind == kCover ? order <= 0 : order < 0;
  }
};

// Makes the Mnodes of leaves in a gap.
template <class C>
class GapOpener {
 public:
  virtual ~GapOpener() = default;
  // Of the leaf in the gap that is aimed at. True: to be sought again; there may be something in
  // the way still. False: something on the way there is damaged. `snapshot`: of the gap's lock.
  virtual bool Open(Mnode<C>* gap, uint64_t snapshot, const Aim<C>& aim) = 0;
};

// Searches return null only where there are gaps: something on the way to the leaf is damaged.
template <class C>
class TopLayer {
 public:
  using Key = typename C::Key;

  explicit TopLayer(DramArena& dram) : tree_(dram) {}

  // For a new or a recovered tree; not thread-safe. The Mnodes ascend, and the first one is that of
  // the lowest keys.
  void Build(std::span<Mnode<C>* const> mnodes, unsigned threads = 1) {
    art::Builder(tree_, mnodes).Build(threads);
  }

  // Before there is a gap.
  void set_gap_opener(GapOpener<C>* opener) { opener_ = opener; }

  template <class Form = SearchByPointer>
  Mnode<C>* Find(const Key& key, uint64_t* snapshot) const;
  template <class Form = SearchByPointer>
  Mnode<C>* FindForWrite(const Key& key, uint64_t* snapshot) const {
    return Find<Form>(key, snapshot);
  }
  // Of `count` keys, key_at(i); calls found(i, mnode, snapshot) for each.
  template <class Form, class KeyAt, class Found>
  void FindEach(size_t count, KeyAt key_at, Found found) const;
  // The one that covers the largest key below it; the first one if there is none.
  Mnode<C>* FindBefore(const Key& key, uint64_t* snapshot) const;
  Mnode<C>* FindLast(uint64_t* snapshot) const;
  // Like Find, or the gap that has the key.
  Mnode<C>* FindOrGap(const Key& key, uint64_t* snapshot) const;

  // The Mnode takes over the upper part of its left neighbour's range.
  void Insert(Mnode<C>* mnode);
  // The left neighbour takes over the range of the Mnode, which is not the first one. Both publish.
  void Remove(const Mnode<C>* mnode);

  uint64_t node_count() const {
    uint64_t count = 0;
    for (const art::Kind kind : {art::Kind::k4, art::Kind::k16, art::Kind::k48, art::Kind::k256}) {
      count += tree_.nodes().count(kind);
    }
    return count;
  }

 private:
  static auto InTree(const Key& key) {
    if constexpr (C::kRecords) {
      return key.text;
    } else {
      return key.word;
    }
  }
  // What arrives in a search's result.
  static auto TakeVersion(uint64_t* snapshot) {
    return [snapshot](const Mnode<C>* mnode) { *snapshot = mnode->lock.ReadBegin(); };
  }

  bool Open(Mnode<C>* gap, uint64_t snapshot, const Aim<C>& aim) const {
    const OptimisticSection::Validated validated;
    return opener_->Open(gap, snapshot, aim);
  }

  art::Tree<Mnode<C>, LowOf<C>> tree_;
  GapOpener<C>* opener_ = nullptr;
};

template <class C>
template <class Form>
Mnode<C>* TopLayer<C>::Find(const Key& key, uint64_t* snapshot) const {
  const OptimisticSection section;
  for (;;) {
    Mnode<C>* mnode = tree_.template Floor<Form>(InTree(key), TakeVersion(snapshot));
    if (mnode->Covers(key) && mnode->lock.Validate(*snapshot)) [[likely]]
      return mnode;
    if (mnode->gap && !Open(mnode, *snapshot, {Aim<C>::kCover, &key})) return nullptr;
  }
}

template <class C>
Mnode<C>* TopLayer<C>::FindOrGap(const Key& key, uint64_t* snapshot) const {
  const OptimisticSection section;
  for (;;) {
    Mnode<C>* mnode = tree_.Floor(InTree(key), TakeVersion(snapshot));
    if ((mnode->gap || mnode->Covers(key)) && mnode->lock.Validate(*snapshot)) return mnode;
  }
}

template <class C>
template <class Form, class KeyAt, class Found>
void TopLayer<C>::FindEach(size_t count, KeyAt key_at, Found found) const {
  uint64_t snapshot = 0;
  tree_.template FloorEach<Form>(
      count, [&](size_t i) { return InTree(key_at(i)); },
      [&](size_t, const Mnode<C>* mnode) { snapshot = mnode->lock.ReadBegin(); },
      [&](size_t i, Mnode<C>* mnode) {
        const Key& key = key_at(i);
        if (!mnode->Covers(key) || !mnode->lock.Validate(snapshot)) [[unlikely]]
          mnode = Find(key, &snapshot);
        found(i, mnode, snapshot);
      });
}

template <class C>
Mnode<C>* TopLayer<C>::FindBefore(const Key& key, uint64_t* snapshot) const {
  const OptimisticSection section;
  for (;;) {
    Mnode<C>* mnode = tree_.Before(InTree(key), TakeVersion(snapshot));
    if (mnode == nullptr) return Find(key, snapshot);
    const bool reaches = !mnode->bounded() || C::CompareToKey(mnode->high, key) >= 0;
    if (mnode->gap) {
      if (!Open(mnode, *snapshot, {Aim<C>::kBefore, &key})) return nullptr;
      continue;
    }
    if (reaches && mnode->lock.Validate(*snapshot)) return mnode;
  }
}

template <class C>
Mnode<C>* TopLayer<C>::FindLast(uint64_t* snapshot) const {
  const OptimisticSection section;
  for (;;) {
    Mnode<C>* mnode = tree_.Last(TakeVersion(snapshot));
    if (mnode->gap && !Open(mnode, *snapshot, {Aim<C>::kLast, nullptr})) return nullptr;
    if (!mnode->bounded() && mnode->lock.Validate(*snapshot)) return mnode;
  }
}

template <class C>
void TopLayer<C>::Insert(Mnode<C>* mnode) {
  (void)tree_.Insert(LowOf<C>()(mnode), mnode);
}

template <class C>
void TopLayer<C>::Remove(const Mnode<C>* mnode) {
  (void)tree_.Remove(LowOf<C>()(mnode));
}

}  // namespace lodgekv::sptree
