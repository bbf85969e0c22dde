// libpmemobj keeps lanes and a heap of its own in the pool, and trusts them: there are no
// checksums, and damage there causes a fault, a division by zero, a failed assertion or an endless
// loop, in a library that cannot return an error. If the process enables the guard, that ends it in
// a defined way: one line on stderr names the pool, and the exit code is kExitDamagedMetadata.
// Nothing is stored from then on, no destructor runs, the pool is not marked clean.
//
// In the process itself and not in a child that tries the pool first: allocations may hit damage
// while the pool is served, too.
//
// Faults elsewhere, and signals that were sent, go to the previous handler.
#pragma once

namespace lodgekv::pmem {

inline constexpr int kExitDamagedMetadata = 65;  // EX_DATAERR of sysexits.h

// For the whole process, from here on.
void GuardMetadata();

// While this object exists its thread is inside libpmemobj, for the pool at `path`, which must
// outlive it. This much processor time without progress counts as a loop. No effect without the
// guard.
class InsideLibpmemobj {
 public:
  static constexpr int kMostCpuSeconds = 8;

  explicit InsideLibpmemobj(const char* path, int most_cpu_seconds = kMostCpuSeconds);
  ~InsideLibpmemobj();
  InsideLibpmemobj(const InsideLibpmemobj&) = delete;
  InsideLibpmemobj& operator=(const InsideLibpmemobj&) = delete;

  // Progress was made: the time starts anew.
  void NoteProgress();

 private:
  const int most_cpu_seconds_;
};

}  // namespace lodgekv::pmem
