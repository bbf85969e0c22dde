// A mapped page that cannot be read or written, because the medium reports an error, the file was
// truncated, or a file system that copies on write is full, raises SIGBUS. In a watched mapping
// this ends the process in a defined way: one line on stderr names the pool and the place, and the
// exit code is kExitBadPage. Nothing is stored from then on, no destructor runs, the pool is not
// marked clean. docs/decisions/0010-unreadable-page.md says why the process does not continue.
//
// Faults elsewhere, and signals that were sent, go to the previous handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lodgekv::pmem {

inline constexpr int kExitBadPage = 74;  // EX_IOERR of sysexits.h

// Watches a mapping while it exists, which must include libpmemobj's closing: it reads the first
// pages then. At most 16 mappings are watched at a time; more are not.
class WatchedPages {
 public:
  WatchedPages(const char* base, uint64_t bytes, std::string_view path);
  ~WatchedPages();
  WatchedPages(const WatchedPages&) = delete;
  WatchedPages& operator=(const WatchedPages&) = delete;

 private:
  size_t place_;  // among those watched; their number if there was no room
};

// While libpmemobj opens a pool its mapping is unknown: a fault of this thread is attributed to
// `path`, which must outlive this object, at an unknown place.
class OpeningPool {
 public:
  explicit OpeningPool(const char* path);
  ~OpeningPool();
  OpeningPool(const OpeningPool&) = delete;
  OpeningPool& operator=(const OpeningPool&) = delete;
};

}  // namespace lodgekv::pmem
