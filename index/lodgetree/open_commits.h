// A thread's open commits: stored and flushed, and not fenced yet. The thread's next fence, which
// is that of its next write, closes them; so a drain has no closing fence of its own (README, Open
// commits). Until then the log entries of the drained pairs still say all that the commits do.
//
// Under strict order the watermarks of the leaves may not become durable before the commits. They
// are owed, and stored when the commits are closed: the fence after that makes them durable.
//
// Invariants
//  1. What a commit makes superfluous, log entries and records, is given up only when the commit
//     and its watermark are durable.
//  2. Each node has the mark of the last commits of its leaves. While these may be open, nothing
//     changes in its leaves, and no leaf moves to another node (CommitCloser::CloseNode).
//  3. A watermark is owed only while its commit may be open, and only by one worker.
//
// Thread safety: belongs to the worker's thread, except for MayBeOpen, and for `owed` under `lock`.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "index/lodgetree/layout.h"
#include "index/node/version_lock.h"
#include "index/pmem/worker_slot.h"

namespace lodgekv::lodgetree {

// Whose commits a node's last ones are, and which of them: the low bits of a count, which tell open
// ones for certain and may take closed ones for open, once in 256 times.
struct CommitMark {
  uint8_t worker;
  uint8_t round;
};
static_assert(pmem::kMaxWorkerSlots <= 256);

// Appends all of `from` to `to`, which nearly always is empty.
template <class T>
void MoveAll(std::vector<T>& from, std::vector<T>& to) {
  if (to.empty()) {
    to.swap(from);
  } else {
    to.insert(to.end(), from.begin(), from.end());
    from.clear();
  }
}

// The next watermark of a leaf.
struct OwedWatermark {
  media::Leaf* leaf;
  uint64_t watermark;
};

// Of commits: their leaves, and what they make superfluous.
struct Superseded {
  // The thread that has flushed the leaves' headers: another one's fence does not cover that.
  uint64_t turn = 0;
  std::vector<const media::Leaf*> leaves;
  std::vector<uint32_t> logs;      // of the drained pairs
  std::vector<uint64_t> unlinked;  // value words of pairs that are no more
};

class OpenCommits {
 public:
  // Something is not durable yet.
  bool any() const { return any_; }
  // Called by any thread, under the lock of a node with this mark of this worker.
  bool MayBeOpen(CommitMark mark) const {
    const uint32_t state = state_.load(std::memory_order_acquire);
    return (state & kOpen) != 0 && static_cast<uint8_t>(state >> 1) == mark.round;
  }
  // More commits are open; returns the mark of their nodes.
  CommitMark Open() {
    if ((State() & kOpen) == 0) {
      any_ = true;
      stored.turn = pmem::CurrentWorkerTurn();
      SetState((State() + 2) | kOpen);
    }
    return Mark();
  }
  // A mark of commits that are closed.
  CommitMark ClosedMark() const {
    CommitMark mark = Mark();
    if ((State() & kOpen) != 0) --mark.round;
    return mark;
  }
  // All commits are durable, and watermarks stored.
  void Close() {
    any_ = !marked.leaves.empty();
    SetState(State() & ~kOpen);
  }

  Superseded stored;
  std::vector<OwedWatermark> owed;  // of leaves in `stored`
  VersionLock lock;
  Superseded marked;  // commits that are durable, under watermarks that are flushed

 private:
  static constexpr uint32_t kOpen = 1;

  CommitMark Mark() const {
    return {static_cast<uint8_t>(pmem::CurrentWorkerSlot()), static_cast<uint8_t>(State() >> 1)};
  }
  uint32_t State() const { return state_.load(std::memory_order_relaxed); }
  void SetState(uint32_t state) { state_.store(state, std::memory_order_release); }

  bool any_ = false;
  std::atomic<uint32_t> state_{0};  // how often commits were opened, times 2; kOpen
};

}  // namespace lodgekv::lodgetree
