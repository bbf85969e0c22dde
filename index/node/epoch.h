// Epochs by liburcu (the bp flavour: threads need no registration). A reader of records holds a
// guard from before it reads the word that leads to a record until it has copied the record out; a
// record is freed only when every guard that was held at its unlinking has ended.
#pragma once

#include <urcu/static/urcu-bp.h>

#include <type_traits>

namespace lodgekv {

// Never held while waiting for a lock, a fence or a client, but for the fence of a first touch
// after a kill (settle_at_touch.h).
class EpochGuard {
 public:
  EpochGuard();
  ~EpochGuard();
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

  // Whether the calling thread holds one.
  static bool IsHeld();
};

// The same by liburcu's inline functions, which are 70 instructions shorter: for single reads. Only
// in code that is compiled for a form of search (search_form.h, kInlines).
#if defined(__SANITIZE_ADDRESS__)
// liburcu places a thread's counters where their type's alignment would not have them, and that is
// an error of UndefinedBehaviorSanitizer's where it sees the code.
using InlineEpochGuard = EpochGuard;
#else
class InlineEpochGuard {
 public:
  InlineEpochGuard() { _urcu_bp_read_lock(); }
  ~InlineEpochGuard() { _urcu_bp_read_unlock(); }
  InlineEpochGuard(const InlineEpochGuard&) = delete;
  InlineEpochGuard& operator=(const InlineEpochGuard&) = delete;
};
#endif

// The one for code that is compiled for `Form`.
template <class Form>
using EpochGuardOf = std::conditional_t<Form::kInlines, InlineEpochGuard, EpochGuard>;

// Returns when every guard that was held when it was called has ended. Not inside a guard.
void WaitForEpochs();

}  // namespace lodgekv
