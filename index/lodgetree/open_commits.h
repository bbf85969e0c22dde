// A thread's open commits: stored and flushed, and not fenced yet. The thread's next fence, which
// is that of its next write, closes them; so a drain has no closing fence of its own (README, Open
// commits). Until then the log entries of the drained pairs still say all that the commits do.
//
// Invariants
//  1. What a commit makes superfluous, log entries and records, is given up only when it is closed.
//  2. Each node has the mark of the last commits of its leaves. While these may be open, nothing
//     changes in its leaves, and no leaf moves to another node (CommitCloser::CloseNode).
//
// Thread safety: belongs to the worker's thread, except for MayBeOpen.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "index/lodgetree/layout.h"
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

class OpenCommits {
 public:
  bool any() const { return any_; }
  // Called by any thread, under the lock of a node with this mark of this worker.
  bool MayBeOpen(CommitMark mark) const {
    const uint32_t state = state_.load(std::memory_order_acquire);
    return (state & kOpen) != 0 && static_cast<uint8_t>(state >> 1) == mark.round;
  }
  // False: the thread that opened them has ended, so that no fence of the caller's covers them.
  bool AreOfCaller() const { return turn_ == pmem::CurrentWorkerTurn(); }

  // More commits are open; returns the mark of their nodes.
  CommitMark Open() {
    if (!any_) {
      any_ = true;
      turn_ = pmem::CurrentWorkerTurn();
      SetState((State() + 2) | kOpen);
    }
    return Mark();
  }
  // A mark of commits that are closed.
  CommitMark ClosedMark() const {
    CommitMark mark = Mark();
    if (any_) --mark.round;
    return mark;
  }
  // All are durable.
  void Close() {
    leaves.clear();
    any_ = false;
    SetState(State() & ~kOpen);
  }

  // Theirs: the leaves, the logs of the drained pairs, the value words of pairs that are no more.
  std::vector<const media::Leaf*> leaves;
  std::vector<uint32_t> logs;
  std::vector<uint64_t> unlinked;

 private:
  static constexpr uint32_t kOpen = 1;

  CommitMark Mark() const {
    return {static_cast<uint8_t>(pmem::CurrentWorkerSlot()), static_cast<uint8_t>(State() >> 1)};
  }
  uint32_t State() const { return state_.load(std::memory_order_relaxed); }
  void SetState(uint32_t state) { state_.store(state, std::memory_order_release); }

  bool any_ = false;
  uint64_t turn_ = 0;               // of the thread that has opened them
  std::atomic<uint32_t> state_{0};  // how often commits were opened, times 2; kOpen
};

}  // namespace lodgekv::lodgetree
