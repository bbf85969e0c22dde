#include "index/pmem/pool_contents.h"

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/chunk_seal.h"
#include "index/pmem/pool.h"

namespace lodgekv::pmem {

absl::Status PoolContents::WithName(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(name_, status.message()));
}

absl::Status PoolContents::Verify(Offset offset) {
  const Chunk chunk = pool_.FindChunk(offset);
  if (chunk.index == UINT32_MAX) return absl::OkStatus();
  return WithName(seal_->Verify(chunk));
}

absl::StatusOr<bool> PoolContents::VerifySome() {
  absl::StatusOr<bool> more = seal_->VerifyNext();
  if (!more.ok()) return WithName(more.status());
  return more;
}

absl::Status PoolContents::FinishVerify() {
  const absl::Status status = seal_->VerifyAll(threads_);
  if (!status.ok()) return WithName(status);
  pool_.BeginUse();
  return absl::OkStatus();
}

}  // namespace lodgekv::pmem
