#include "index/pmem/internal/chunk_seal.h"

#include "absl/strings/str_format.h"
#include "index/pmem/crash_point.h"
#include "index/pmem/crc32c.h"
#include "index/pmem/internal/in_parallel.h"

namespace lodgekv::pmem {
namespace {

// Records have checksums of their own, and verifying them here would take long.
bool IsSealed(const Chunk& chunk) {
  return chunk.use == ChunkUse::kNodes || chunk.use == ChunkUse::kLogs;
}

constexpr uint64_t kContentSealed = uint64_t{1} << 32;

// What lies in a chunk need not be durable where nobody would look: whoever stored in space that is
// free, or free again, owes no flush. But the checksum is over all of it. The thread's own fence:
// that of another does not cover its flushes. On a file all of the pool has been synced (pool.cc).
void PersistContent(Medium& medium, const char* base, const Chunk& chunk) {
  if (medium.mode() == FlushMode::kFile || medium.Canary("pmem.seal.content_not_flushed")) return;
  medium.Flush(base + chunk.begin, chunk.bytes);
  LODGEKV_CRASH_POINT(medium, "pmem.seal.1");
  medium.Fence();
}

}  // namespace

uint64_t ChunkSeal::ContentWord(const Chunk& chunk) const {
  return kContentSealed | Crc32c(crc_seed_, base_ + chunk.begin, chunk.bytes);
}

std::vector<Chunk> ChunkSeal::ChunksToSeal() const {
  std::vector<Chunk> chunks = table_.InUse();
  std::erase_if(chunks, [](const Chunk& chunk) { return !IsSealed(chunk); });
  return chunks;
}

void ChunkSeal::Make(unsigned threads) {
  Medium& medium = table_.medium();
  const std::vector<Chunk> chunks = ChunksToSeal();
  std::vector<uint64_t> word_of_row(table_.rows().size());  // 0 where there is nothing to seal
  InParallel(chunks.size(), threads, [&](size_t i) {
    const uint32_t row = chunks[i].index;
    const bool verified = rows_[row].load(std::memory_order_acquire) == RowState::kVerified;
    if (verified) PersistContent(medium, base_, chunks[i]);
    word_of_row[row] = verified ? ContentWord(chunks[i]) : table_.rows()[row].content.Load();
    return true;
  });
  for (const Chunk& chunk : table_.InUse()) {
    Word& word = table_.rows()[chunk.index].content;
    medium.Store(word, word_of_row[chunk.index]);
    medium.Flush(&word, sizeof word);
  }
  LODGEKV_CRASH_POINT(medium, "pmem.seal.2");
  medium.Fence();
}

void ChunkSeal::Expect() {
  const std::vector<Chunk> chunks = ChunksToSeal();
  for (const Chunk& chunk : chunks) {
    rows_[chunk.index].store(RowState::kUnverified, std::memory_order_relaxed);
  }
  unverified_.store(static_cast<uint32_t>(chunks.size()), std::memory_order_release);
}

bool ChunkSeal::HoldsWhatWasSealed(const Chunk& chunk) const {
  const uint64_t sealed = table_.rows()[chunk.index].content.Load();
  // 0: closed by a program that made none. The seal covers the row, so nothing else becomes 0.
  return sealed == 0 || sealed == ContentWord(chunk);
}

// kVerified or kDamaged.
ChunkSeal::RowState ChunkSeal::VerifyOnce(const Chunk& chunk) {
  std::atomic<RowState>& state = rows_[chunk.index];
  RowState seen = RowState::kUnverified;
  if (state.compare_exchange_strong(seen, RowState::kBeingVerified, std::memory_order_acq_rel)) {
    const bool holds = HoldsWhatWasSealed(chunk);
    seen = holds ? RowState::kVerified : RowState::kDamaged;
    state.store(seen, std::memory_order_release);
    state.notify_all();
    if (holds) unverified_.fetch_sub(1, std::memory_order_acq_rel);
    return seen;
  }
  for (; seen == RowState::kBeingVerified; seen = state.load(std::memory_order_acquire)) {
    state.wait(RowState::kBeingVerified, std::memory_order_acquire);
  }
  return seen;
}

absl::Status ChunkSeal::Damage(const Chunk& chunk) const {
  return absl::DataLossError(absl::StrFormat(
      "its %s in chunk %u (offset %u to %u) are damaged: the pool was closed cleanly with "
      "checksum 0x%08x over them, now it is 0x%08x",
      chunk.use == ChunkUse::kNodes ? "nodes" : "logs", chunk.index, chunk.begin,
      chunk.begin + chunk.bytes - 1,
      static_cast<uint32_t>(table_.rows()[chunk.index].content.Load()),
      static_cast<uint32_t>(ContentWord(chunk))));
}

absl::Status ChunkSeal::Verify(const Chunk& chunk) {
  if (rows_[chunk.index].load(std::memory_order_relaxed) == RowState::kVerified) {
    return absl::OkStatus();
  }
  return VerifyOnce(chunk) == RowState::kVerified ? absl::OkStatus() : Damage(chunk);
}

absl::StatusOr<bool> ChunkSeal::VerifyNext() {
  for (uint32_t row; (row = next_.fetch_add(1)) < table_.rows().size();) {
    if (rows_[row].load(std::memory_order_acquire) != RowState::kUnverified) continue;
    const absl::Status status = Verify(table_.ChunkOf(row));
    if (!status.ok()) return status;
    return true;
  }
  next_.store(static_cast<uint32_t>(table_.rows().size()));  // it must not wrap around
  return false;
}

absl::Status ChunkSeal::VerifyAll(unsigned threads) {
  if (unverified_.load(std::memory_order_acquire) == 0) return absl::OkStatus();
  const std::vector<Chunk> chunks = ChunksToSeal();
  std::atomic<size_t> first_bad{chunks.size()};
  InParallel(chunks.size(), threads, [&](size_t i) {
    if (VerifyOnce(chunks[i]) == RowState::kVerified) return true;
    // Verification of every chunk before it has been started.
    size_t first = first_bad.load();
    while (i < first && !first_bad.compare_exchange_weak(first, i)) {
    }
    return false;
  });
  return first_bad == chunks.size() ? absl::OkStatus() : Damage(chunks[first_bad]);
}

void ChunkSeal::Forget(uint32_t row) {
  std::atomic<RowState>& state = rows_[row];
  RowState seen = RowState::kUnverified;
  if (state.compare_exchange_strong(seen, RowState::kVerified, std::memory_order_acq_rel)) {
    unverified_.fetch_sub(1, std::memory_order_acq_rel);
  }
  // The next user of the chunk stores in it.
  state.wait(RowState::kBeingVerified, std::memory_order_acquire);
}

}  // namespace lodgekv::pmem
