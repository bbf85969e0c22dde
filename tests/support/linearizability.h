// Whether the history of one key, as several threads saw it, is linearizable: some sequence of the
// operations explains it in which each takes effect between its call and its return.
//
// Two algorithms. If every write sets a distinct value and nothing depends on the value before,
// zones decide in n log n (Gibbons and Korach, Testing Shared Memories, SIAM J. Comput. 1997).
// Otherwise just-in-time linearization (Lowe, Testing for Linearizability, 2017): after each event
// the set of all possible states after the operations called so far.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace lodgekv::test {

// The value of an absent key.
inline constexpr uint64_t kAbsent = 0;
inline constexpr int64_t kNeverReturned = std::numeric_limits<int64_t>::max();

// An operation on a register as its caller saw it: the value just before it (as its answer says),
// and the value that it set.
struct RegisterOp {
  enum class Require : uint8_t { kAnything, kEquals, kDiffers };

  Require require = Require::kAnything;
  uint64_t operand = 0;
  bool sets = false;
  uint64_t value = 0;
  int64_t call_ns = 0;
  // kNeverReturned: its outcome is unknown, it may take effect at any later time or not at all.
  int64_t return_ns = 0;
  uint32_t thread = 0;

  static RegisterOp Read(uint64_t value);
  static RegisterOp Write(uint64_t value);
  static RegisterOp Delete(bool found);
  static RegisterOp WriteIfAbsent(uint64_t value, bool applied);
  static RegisterOp WriteIfPresent(uint64_t value, bool applied);
  static RegisterOp CompareAndSet(uint64_t expected, uint64_t value, bool applied);
  RegisterOp At(int64_t call, int64_t ret, uint32_t by_thread = 0) const;
};

// The times of a call and of its return, in nanoseconds of a clock shared by all threads. Equal
// times count as concurrent. A processor buffers stores for some ten nanoseconds and begins loads
// early, which the clock would see although no thread can: whatever tells another thread of a
// return is itself a store, after those of the operation. So the time of a return is taken when the
// thread's stores are visible, and no load of an operation is made before the time of its call.
int64_t TimeOfCall();
int64_t TimeOfReturn();

// Returns nothing if linearizable; otherwise the contradiction, with the operations around it. The
// history may be in any order. Throws std::length_error if more than 64 operations overlap.
std::optional<std::string> FindAnomaly(std::span<const RegisterOp> history,
                                       uint64_t initial = kAbsent);

// The two algorithms separately, for their own tests.
bool HasUniqueWrites(std::span<const RegisterOp> history, uint64_t initial);
std::optional<std::string> FindAnomalyByZones(std::span<const RegisterOp> history,
                                              uint64_t initial);
std::optional<std::string> FindAnomalyJustInTime(std::span<const RegisterOp> history,
                                                 uint64_t initial);

}  // namespace lodgekv::test
