#include "index/node/two_generations.h"

#include <algorithm>
#include <vector>

#include "index/node/checked_word.h"
#include "index/node/recovery_tasks.h"
#include "index/pmem/crash_point.h"
#include "index/pmem/crc32c.h"

namespace lodgekv {

namespace {

// Size classes from here on are multiples of a block, so contents begin with a block.
constexpr uint64_t kLeastSpace = 1024;

uint64_t SpaceFor(uint64_t bytes) { return std::max(kLeastSpace, pmem::kBlockBytes + bytes); }

}  // namespace

TwoGenerations::Content TwoGenerations::ContentOf(pmem::Offset space) const {
  if (space == 0) return {};
  return {pool_.At<char>(space + pmem::kBlockBytes), HeaderOf(space).bytes.LoadRelaxed()};
}

uint64_t TwoGenerations::ChecksumOf(pmem::Offset space, uint64_t bytes) const {
  const uint64_t words[] = {space, bytes};
  return pmem::Crc32c(pool_.crc_seed(), words, sizeof(words));
}

uint64_t TwoGenerations::space_bytes() const {
  const pmem::Offset space = current_.load(std::memory_order_acquire);
  return space == 0 ? 0 : slab_.SpaceAt(space);
}

bool TwoGenerations::Stage(uint64_t bytes, pmem::ReservePolicy policy, Staged* staged) {
  *staged = {slab_.Allocate(SpaceFor(bytes), policy), bytes};
  return staged->space != 0;
}

void TwoGenerations::Write(const Staged& staged, uint64_t at, const void* from, uint64_t bytes) {
  char* to = pool_.At<char>(staged.space + pmem::kBlockBytes + at);
  pool_.medium().StoreBulk(to, from, bytes);
  pool_.medium().Flush(to, bytes);
}

void TwoGenerations::WriteHeader(const Staged& staged) {
  pmem::Medium& medium = pool_.medium();
  media::GenerationHeader& header = HeaderOf(staged.space);
  medium.Store(header.checksum, ChecksumOf(staged.space, staged.bytes));
  medium.Store(header.bytes, staged.bytes);
  if (!medium.Canary("node.two_generations.header_not_flushed")) medium.FlushLine(&header);
}

bool TwoGenerations::Commit(const Staged& staged, absl::FunctionRef<void()> publish) {
  pmem::Medium& medium = pool_.medium();
  WriteHeader(staged);
  LODGEKV_CRASH_POINT(medium, "node.two_generations.1");
  medium.Fence();
  if (!medium.Canary("node.two_generations.space_not_committed")) slab_.Commit(staged.space);
  LODGEKV_CRASH_POINT(medium, "node.two_generations.2");
  const pmem::Offset old = current_.load(std::memory_order_relaxed);
  if (medium.Canary("node.two_generations.freed_early")) Retire(old);
  medium.Store(root_, CheckedWord(staged.space));
  medium.FlushLine(&root_);
  LODGEKV_CRASH_POINT(medium, "node.two_generations.3");
  medium.Fence();
  if (medium.failed()) return false;
  current_.store(staged.space, std::memory_order_release);
  publish();
  if (!medium.Canary("node.two_generations.freed_early") &&
      !medium.Canary("node.two_generations.old_stays")) {
    Retire(old);
  }
  LODGEKV_CRASH_POINT(medium, "node.two_generations.4");
  return true;
}

bool TwoGenerations::Clear(pmem::Offset* space) {
  pmem::Medium& medium = pool_.medium();
  *space = current_.load(std::memory_order_relaxed);
  medium.Store(root_, CheckedWord(0));
  medium.Persist(&root_, sizeof(root_));
  if (medium.failed()) return false;
  current_.store(0, std::memory_order_release);
  return true;
}

void TwoGenerations::Retire(pmem::Offset space) {
  if (space == 0) return;
  std::vector<pmem::Offset> batch = {space};
  reclaimer_.Retire(batch, slab_.SpaceAt(space));
}

absl::Status TwoGenerations::Recover(std::string_view engine) {
  pmem::Offset space;
  if (!ReadChecked(root_.Load(), &space)) {
    return DamagedPool(engine, "a root of generations with wrong check bits",
                       pool_.OffsetOf(&root_));
  }
  if (space == 0) return absl::OkStatus();
  if (slab_.Mark(space) != pmem::UnitArena::MarkResult::kMarked) {
    return DamagedPool(engine, "a generation that has no space of its own", space);
  }
  const media::GenerationHeader& header = HeaderOf(space);
  const uint64_t bytes = header.bytes.Load();
  if (header.checksum.Load() != ChecksumOf(space, bytes)) {
    return DamagedPool(engine, "a generation whose header is damaged", space);
  }
  if (bytes > slab_.SpaceAt(space) - pmem::kBlockBytes) {
    return DamagedPool(engine, "a generation larger than its space", space);
  }
  current_.store(space, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace lodgekv
