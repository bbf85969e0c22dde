// A mapped page that cannot be read or written, because the medium reports an error there or the
// file was cut short, raises SIGBUS. In a watched mapping that ends the process in order: one line
// on stderr names the pool and the place, and the exit code is kExitBadPage. Nothing is stored from
// then on, no destructor runs, the pool is not marked clean.
// docs/decisions/0010-unreadable-page.md says why the process does not go on.
//
// Faults elsewhere, and signals that were sent, are left to whoever cared for them before.
#pragma once

#include <cstdint>
#include <string_view>

namespace lodgekv::pmem {

inline constexpr int kExitBadPage = 74;  // EX_IOERR of sysexits.h

// From here until ForgetPages(base), of at most 16 mappings at a time; more are not watched.
void WatchPages(const char* base, uint64_t bytes, std::string_view path);
void ForgetPages(const char* base);

// While libpmemobj opens a pool its mapping is not known: a fault of this thread counts as one of
// `path`, which outlives this, at a place that cannot be told.
class OpeningPool {
 public:
  explicit OpeningPool(const char* path);
  ~OpeningPool();
  OpeningPool(const OpeningPool&) = delete;
  OpeningPool& operator=(const OpeningPool&) = delete;
};

}  // namespace lodgekv::pmem
