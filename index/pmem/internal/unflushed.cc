#include "index/pmem/internal/unflushed.h"

#include <algorithm>
#include <chrono>

#include "index/pmem/crash_point.h"
#include "index/pmem/internal/in_parallel.h"

namespace lodgekv::pmem {
namespace {

// All of it: also what is free may have been prepared for its next use (zero_heads.h).
void PersistAll(const UnflushedPool& pool) {
  constexpr uint64_t kPiece = uint64_t{4} << 20;
  // Each piece by one thread: a fence does not cover what others have flushed.
  InParallel((pool.bytes + kPiece - 1) / kPiece, pool.threads, [&](size_t i) {
    const uint64_t begin = i * kPiece;
    pool.medium.Flush(pool.base + begin, std::min(kPiece, pool.bytes - begin));
    LODGEKV_CRASH_POINT(pool.medium, "pmem.unflushed.2");
    pool.medium.Fence();
    return true;
  });
}

}  // namespace

absl::StatusOr<FlushAtOpen> PersistUnflushed(const UnflushedPool& pool) {
  if (!pool.header.unflushed()) return FlushAtOpen{};
  const auto begun = std::chrono::steady_clock::now();
  const bool early = pool.medium.Canary("pmem.unflushed.cleared_first");
  if (early) pool.header.ClearUnflushed();
  if (pool.medium.mode() != FlushMode::kFile) {
    PersistAll(pool);
  } else if (!pool.files->RewriteAll(pool.bytes)) {
    return absl::DataLossError("a sync of it failed");
  }
  if (!early) pool.header.ClearUnflushed();
  if (pool.medium.failed()) return absl::DataLossError("a sync of it failed");
  const auto took = std::chrono::steady_clock::now() - begun;
  FlushAtOpen flush;
  flush.done = true;
  flush.milliseconds =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
  return flush;
}

}  // namespace lodgekv::pmem
