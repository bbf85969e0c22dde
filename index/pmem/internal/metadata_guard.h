// libpmemobj keeps lanes and a heap of its own in the pool, and trusts them: there are no
// checksums, and what damage there does is a fault, a division by zero, a failed assertion or a
// loop without an end, in a library that cannot answer with an error. Where the process asks for
// it, that ends it in order: one line on stderr names the pool, and the exit code is
// kExitDamagedMetadata. Nothing is stored from then on, no destructor runs, the pool is not marked
// clean.
//
// In the process itself and not in a child that tries the pool first: damage is met at allocations
// while the pool is served as well.
//
// Faults elsewhere, and signals that were sent, are left to whoever cared for them before.
#pragma once

namespace lodgekv::pmem {

inline constexpr int kExitDamagedMetadata = 65;  // EX_DATAERR of sysexits.h

// For the whole process, from here on.
void GuardMetadata();

// While this lives its thread is inside libpmemobj, for the pool at `path`, which outlives this. So
// much processor time without progress is a loop. Without effect where nobody asked for the guard.
class InsideLibpmemobj {
 public:
  static constexpr int kMostCpuSeconds = 8;

  explicit InsideLibpmemobj(const char* path, int most_cpu_seconds = kMostCpuSeconds);
  ~InsideLibpmemobj();
  InsideLibpmemobj(const InsideLibpmemobj&) = delete;
  InsideLibpmemobj& operator=(const InsideLibpmemobj&) = delete;

  // It goes forward: the time counts anew.
  void NoteProgress();

 private:
  const int most_cpu_seconds_;
};

}  // namespace lodgekv::pmem
