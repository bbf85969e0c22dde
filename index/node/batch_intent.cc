#include "index/node/batch_intent.h"

#include <bit>
#include <cstddef>

#include "index/node/checked_word.h"
#include "index/node/version_lock.h"
#include "index/pmem/crash_point.h"
#include "index/pmem/crc32c.h"

namespace lodgekv {

namespace {

constexpr size_t kHeaderWords = sizeof(media::IntentHeader) / sizeof(uint64_t);
constexpr size_t kOpWords = sizeof(media::IntendedOp) / sizeof(uint64_t);

size_t BodyBytes(size_t ops) { return (kHeaderWords + kOpWords * ops) * sizeof(uint64_t); }

}  // namespace

bool BatchIntents::Allocate(size_t ops, pmem::ReservePolicy policy, Intent* intent) {
  intent->body = slab_.Allocate(BodyBytes(ops), policy);
  return intent->body != 0;
}

void BatchIntents::Drop(Intent& intent) {
  if (intent.body != 0) slab_.Free(intent.body);
  intent = {};
}

unsigned BatchIntents::TakeRoot() {
  for (Backoff backoff;; backoff.Pause()) {
    uint32_t taken = taken_.load(std::memory_order_relaxed);
    const auto root = static_cast<unsigned>(std::countr_one(taken));
    if (root < kRoots && taken_.compare_exchange_weak(taken, taken | uint32_t{1} << root)) {
      return root;
    }
  }
}

uint32_t BatchIntents::ChecksumOf(pmem::Offset body, std::span<const uint64_t> words) const {
  const uint32_t crc = pmem::Crc32c(pool_.crc_seed(), &body, sizeof(body));
  return pmem::Crc32c(crc, words.data() + 1, (words.size() - 1) * sizeof(uint64_t));
}

void BatchIntents::Commit(Intent& intent, std::span<const IntendedOp> ops,
                          std::optional<uint64_t> applied_index) {
  uint64_t words[kHeaderWords + kOpWords * kMostOps];
  words[1] = ops.size();
  words[2] = applied_index.has_value() ? 1 : 0;
  words[3] = applied_index.value_or(0);
  size_t count = kHeaderWords;
  for (const IntendedOp& op : ops) {
    words[count++] = op.pair.key;
    words[count++] = op.pair.value;
    words[count++] = op.remove ? 1 : 0;
  }
  words[0] = ChecksumOf(intent.body, {words, count});
  pmem::Medium& medium = pool_.medium();
  char* body = pool_.At<char>(intent.body);
  const size_t bytes = count * sizeof(uint64_t);
  medium.StoreBulk(body, words, bytes);
  if (!medium.Canary("node.batch_intent.body_not_flushed")) medium.Flush(body, bytes);
  LODGEKV_CRASH_POINT(medium, "node.batch_intent.1");
  if (slab_.IsLarge(bytes)) {
    medium.Fence();
    slab_.Commit(intent.body);
  } else {
    medium.OrderStores();
  }
  intent.root = TakeRoot();
  medium.StoreOrdered(roots_[intent.root], CheckedWord(intent.body));
  medium.FlushLine(&roots_[intent.root]);
  LODGEKV_CRASH_POINT(medium, "node.batch_intent.2");
  medium.Fence();
}

void BatchIntents::Retire(Intent& intent) {
  pmem::Medium& medium = pool_.medium();
  medium.Store(roots_[intent.root], 0);
  medium.FlushLine(&roots_[intent.root]);
  LODGEKV_CRASH_POINT(medium, "node.batch_intent.3");
  medium.Fence();
  if (medium.failed()) return;  // the root may still refer to the body
  taken_.fetch_and(~(uint32_t{1} << intent.root));
  Drop(intent);
}

absl::Status BatchIntents::Read(std::string_view engine, Found* found) {
  const pmem::Offset body = found->intent.body;
  if (slab_.Mark(body) != pmem::UnitArena::MarkResult::kMarked) {
    return DamagedPool(engine, "a batch that leads to no space of its own", body);
  }
  const uint64_t* at = pool_.At<uint64_t>(body);
  const uint64_t count = at[offsetof(media::IntentHeader, count) / sizeof(uint64_t)];
  if (count > kMostOps || BodyBytes(count) > slab_.SpaceAt(body)) {
    return DamagedPool(engine, "a batch whose size is damaged", body);
  }
  const std::span<const uint64_t> words(at, BodyBytes(count) / sizeof(uint64_t));
  if (words[0] != ChecksumOf(body, words)) {
    return DamagedPool(engine, "a batch whose checksum is wrong", body);
  }
  if (words[2] != 0) found->applied_index = words[3];
  for (size_t i = kHeaderWords; i < words.size(); i += kOpWords) {
    found->ops.push_back({{words[i], words[i + 1]}, words[i + 2] != 0});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BatchIntents::Found>> BatchIntents::Find(std::string_view engine) {
  std::vector<Found> all;
  for (unsigned root = 0; root < kRoots; ++root) {
    Found found;
    found.intent.root = root;
    if (!ReadChecked(roots_[root].Load(), &found.intent.body)) {
      return DamagedPool(engine, "a root of batches with wrong check bits",
                         pool_.OffsetOf(&roots_[root]));
    }
    if (found.intent.body == 0) continue;
    const absl::Status status = Read(engine, &found);
    if (!status.ok()) return status;
    taken_.fetch_or(uint32_t{1} << root);
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace lodgekv
