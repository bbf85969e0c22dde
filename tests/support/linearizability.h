// Is the history of one key, as several threads saw it, one that some sequence of the operations
// gives in which each takes effect between its call and its return?
//
// Two algorithms. Where every write sets a value of its own and nothing depends on the value
// before, zones decide in n log n (Gibbons and Korach, Testing Shared Memories, SIAM J. Comput.
// 1997). Otherwise just-in-time linearization (Lowe, Testing for Linearizability, 2017): after each
// event the set of all states that the operations called so far may have led to.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace lodgekv::test {

// The value of a key that is not there.
inline constexpr uint64_t kAbsent = 0;
inline constexpr int64_t kNeverReturned = std::numeric_limits<int64_t>::max();

// An operation on a register, as seen from outside: what the value must have been just before it
// (as its answer tells), and what it set.
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

// The times of a call and of its return, nanoseconds of a clock that all threads share. Two equal
// times count as concurrent. A processor keeps stores in a buffer for some ten nanoseconds and
// begins loads early, which the clock would see although nobody else can: whatever tells another
// thread of a return is itself a store, behind those of the operation. So the time of a return is
// taken when the thread's stores are visible, and no load of an operation is made before the time
// of its call.
int64_t TimeOfCall();
int64_t TimeOfReturn();

// Nothing when linearizable; else what cannot be, with the operations around it. The history may be
// in any order. Throws std::length_error when more than 64 operations overlap.
std::optional<std::string> FindAnomaly(std::span<const RegisterOp> history,
                                       uint64_t initial = kAbsent);

// The two algorithms by themselves, for their own tests.
bool HasUniqueWrites(std::span<const RegisterOp> history, uint64_t initial);
std::optional<std::string> FindAnomalyByZones(std::span<const RegisterOp> history,
                                              uint64_t initial);
std::optional<std::string> FindAnomalyJustInTime(std::span<const RegisterOp> history,
                                                 uint64_t initial);

}  // namespace lodgekv::test
