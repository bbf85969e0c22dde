// Group commit: operations share fences, each with its own outcome (write_tree.h).
//
// A group is written in passes: all operations that can join are staged, then committed together.
// An operation cannot join if its leaf is busy, or can take nothing more before the commit, or a
// batch has the key. Then it is skipped, and so is every later operation on its key, so that none
// overtakes an earlier one; it may join the next pass. An operation that needs more than a pass
// does is written alone between two passes, while the group holds no lock.
//
// All keys are sought before the first pass, so that the lines of many leaves, and then the records
// there, are fetched at once.
//
// Thread-safe.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <numeric>
#include <span>

#include "absl/container/inlined_vector.h"
#include "index/node/point_writes.h"

namespace lodgekv {

template <class C, WriteTree<C> Tree>
class GroupWrites {
 public:
  explicit GroupWrites(Tree& tree) : tree_(tree), stages_(tree.stages()) {}

  // Returns the first outcome other than kOk.
  Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                const WriteOptions& options);
  using Key = typename C::Key;
  using Sought = SoughtKey<Key, typename Tree::Seen>;

  // For an atomic batch, whose keys are locked, or recovery: operations already applied are not
  // applied again. `sought`: their keys; recovery has none.
  Outcome ApplyIntended(std::span<const IntendedOp> ops, std::span<const Sought> sought = {});

 private:
  using Group = typename Tree::Group;
  static constexpr size_t kMostMembers = 256;  // of a group

  // The operations of a group, by number. Such a class has
  //   HashOf       of the key
  //   Join         what the pass does with it
  //   WriteAlone   between two passes
  //   Fail         a sync has failed since it joined
  struct ClientOps {
    uint16_t HashOf(size_t i) const { return sought[i].key.hash; }
    Joining Join(Group& group, size_t i) const {
      return writes.Join(group, ops[i], sought[i], &results[i], options.now_unix_ms);
    }
    void WriteAlone(size_t i) const {
      (void)PointWrites<C, Tree>::Write(writes.tree_, ops[i], &results[i], options);
    }
    // A condition, too, may have been evaluated on data that is not durable.
    void Fail(size_t i) const {
      const Outcome outcome = results[i].outcome;
      if (outcome != Outcome::kOk && outcome != Outcome::kConditionFailed) return;
      results[i] = {Outcome::kMediumFailed, false, 0};
    }

    GroupWrites& writes;
    std::span<const WriteOp> ops;
    std::span<const Sought> sought;
    std::span<WriteResult> results;
    const WriteOptions& options;
  };
  struct IntendedOps {
    uint16_t HashOf(size_t i) const {
      char scratch[8];
      return SoughtAt(i, scratch).key.hash;
    }
    Joining Join(Group& group, size_t i) const {
      char scratch[8];
      return writes.JoinIntended(group, ops[i], SoughtAt(i, scratch));
    }
    void WriteAlone(size_t i) {
      const Outcome outcome = writes.ApplyAlone(ops[i]);
      if (first == Outcome::kOk) first = outcome;
    }
    void Fail(size_t) const {}
    Sought SoughtAt(size_t i, char (&scratch)[8]) const {
      return sought.empty() ? Sought{writes.KeyOf(ops[i], scratch), {}} : sought[i];
    }

    GroupWrites& writes;
    std::span<const IntendedOp> ops;
    std::span<const Sought> sought;
    Outcome first = Outcome::kOk;
  };

  template <class Members>
  void WriteInPasses(size_t count, bool of_batch, Members& members);
  Joining Join(Group& group, const WriteOp& op, const Sought& sought, WriteResult* result,
               uint64_t now);
  Joining JoinIntended(Group& group, const IntendedOp& op, const Sought& sought);
  Outcome ApplyAlone(const IntendedOp& op);
  Key KeyOf(const IntendedOp& op, char (&scratch)[8]) const;

  Tree& tree_;
  OpStages<C>& stages_;
};

template <class C, WriteTree<C> Tree>
Outcome GroupWrites<C, Tree>::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                    const WriteOptions& options) {
  absl::InlinedVector<Sought, kMostMembers> sought;
  for (size_t begin = 0; begin < ops.size(); begin += kMostMembers) {
    const auto part = ops.subspan(begin, std::min(kMostMembers, ops.size() - begin));
    sought.clear();
    SeekAll<C>(tree_, part, sought);
    ClientOps members{*this, part, sought, results.subspan(begin, part.size()), options};
    WriteInPasses(part.size(), /*of_batch=*/false, members);
    (void)tree_.AfterWrite();
  }
  for (const WriteResult& result : results) {
    if (result.outcome != Outcome::kOk) return result.outcome;
  }
  return Outcome::kOk;
}

template <class C, WriteTree<C> Tree>
Outcome GroupWrites<C, Tree>::ApplyIntended(std::span<const IntendedOp> ops,
                                            std::span<const Sought> sought) {
  Outcome first = Outcome::kOk;
  for (size_t begin = 0; begin < ops.size(); begin += kMostMembers) {
    const size_t count = std::min(kMostMembers, ops.size() - begin);
    const auto keys = sought.empty() ? sought : sought.subspan(begin, count);
    IntendedOps members{*this, ops.subspan(begin, count), keys};
    WriteInPasses(count, /*of_batch=*/true, members);
    if (first == Outcome::kOk) first = members.first;
  }
  return first;
}

// At most kMostMembers. Each pass decides at least one operation, or no longer waits for anything.
template <class C, WriteTree<C> Tree>
template <class Members>
void GroupWrites<C, Tree>::WriteInPasses(size_t count, bool of_batch, Members& members) {
  Group group(tree_, of_batch);
  uint16_t waiting[kMostMembers];
  std::iota(waiting, waiting + count, uint16_t{0});
  while (count > 0) {
    uint16_t joined[kMostMembers];
    uint16_t alone[kMostMembers];
    size_t joined_count = 0;
    size_t alone_count = 0;
    size_t later_count = 0;
    std::bitset<1024> passed_over;  // by the key's hash
    for (const uint16_t i : std::span(waiting, count)) {
      const size_t key = members.HashOf(i) % passed_over.size();
      Joining joining = Joining::kLater;
      if (!group.full() && !passed_over[key]) joining = members.Join(group, i);
      if (joining == Joining::kJoined) {
        joined[joined_count++] = i;
        continue;
      }
      if (!tree_.medium().Canary("node.group_writes.overtakes")) passed_over.set(key);
      if (joining == Joining::kAlone) {
        alone[alone_count++] = i;
      } else {
        waiting[later_count++] = i;
      }
    }
    group.Commit();
    count = later_count;
    if (tree_.medium().failed()) {
      for (const uint16_t i : std::span(joined, joined_count)) members.Fail(i);
    }
    if (!group.holds_locks()) {
      for (const uint16_t i : std::span(alone, alone_count)) members.WriteAlone(i);
    } else {
      std::copy_n(alone, alone_count, waiting + count);
      std::inplace_merge(waiting, waiting + count, waiting + count + alone_count);
      count += alone_count;
    }
  }
}

template <class C, WriteTree<C> Tree>
Joining GroupWrites<C, Tree>::Join(Group& group, const WriteOp& op, const Sought& sought,
                                   WriteResult* result, uint64_t now) {
  *result = {stages_.Check(op), false, 0};
  if (result->outcome != Outcome::kOk) return Joining::kJoined;
  if (stages_.IsLarge(op)) return Joining::kAlone;
  PendingOp<C> pending{.op = &op, .result = result, .key = sought.key, .staged = {}};
  if (!group.Find(pending.key, sought.seen)) {
    if (!MetDamage(group)) return Joining::kLater;
    result->outcome = Outcome::kDataLoss;
    return Joining::kJoined;
  }
  const bool found = group.found();
  const Pair there = found ? group.FoundPair() : Pair{};
  result->outcome = stages_.Evaluate(found ? &there : nullptr, now, &pending);
  if (!pending.apply) {
    if (result->outcome != Outcome::kConditionFailed) result->version = 0;
    return Joining::kJoined;
  }
  if (pending.remove()) return group.Remove();
  const Joining room = group.MakeRoom(pending.key);
  if (room != Joining::kJoined) return room;
  if (stages_.Stage(&pending) != Outcome::kOk) return Joining::kAlone;
  stages_.Finish(&pending);
  group.Put(pending.staged.pair);
  return Joining::kJoined;
}

template <class C, WriteTree<C> Tree>
Joining GroupWrites<C, Tree>::JoinIntended(Group& group, const IntendedOp& op,
                                           const Sought& sought) {
  if (!group.Find(sought.key, sought.seen)) {
    return MetDamage(group) ? Joining::kAlone : Joining::kLater;
  }
  if (op.remove) return group.found() ? group.Remove() : Joining::kJoined;
  if (group.found() && group.FoundPair().value == op.pair.value) return Joining::kJoined;
  const Joining room = group.MakeRoom(sought.key);
  if (room == Joining::kJoined) group.Put(op.pair);
  return room;
}

template <class C, WriteTree<C> Tree>
Outcome GroupWrites<C, Tree>::ApplyAlone(const IntendedOp& op) {
  char scratch[8];
  const Key key = KeyOf(op, scratch);
  typename Tree::Held held = tree_.Lock(key, /*of_batch=*/true);
  const Outcome outcome = MetDamage(held)
                              ? Outcome::kDataLoss
                              : PointWrites<C, Tree>(tree_).Apply(held, key, op.pair, op.remove);
  held.Unlock();
  return outcome;
}

template <class C, WriteTree<C> Tree>
typename C::Key GroupWrites<C, Tree>::KeyOf(const IntendedOp& op, char (&scratch)[8]) const {
  if constexpr (C::kRecords) {
    return C::MakeKey(stages_.codec().KeyText(op.pair, scratch));
  } else {
    return C::KeyOfWord(op.pair.key);
  }
}

}  // namespace lodgekv
