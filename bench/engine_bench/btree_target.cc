#include "bench/engine_bench/btree_target.h"

namespace lodgekv::bench {
namespace {

class BtreeOps {
 public:
  BtreeOps(BtreeTarget::Map& map, const OpBatch& batch)
      : map_(map), numbers_(batch.numbers.data()), generation_(batch.generation) {}

  void Put(size_t i) { map_.insert_or_assign(numbers_[i], ValueWord(numbers_[i], generation_)); }

  void Read(size_t i) {
    const auto it = map_.find(numbers_[i]);
    if (it == map_.end()) return;
    ++tally_.found;
    if (!IsValueOf(numbers_[i], it->second)) ++tally_.wrong_values;
  }

  void ReadChained(size_t i) {
    const auto it = map_.find(numbers_[i] ^ link_);
    if (it == map_.end()) return;
    ++tally_.found;
    const uint64_t error = ValueError(numbers_[i], it->second);
    link_ = LinkOf(error);
    if (error != 0) ++tally_.wrong_values;
  }

  void Delete(size_t i) { tally_.found += map_.erase(numbers_[i]); }

  void Scan(size_t i) {
    auto it = map_.lower_bound(numbers_[i]);
    if (it != map_.end() && IsValueOf(numbers_[i], it->second)) ++tally_.found;
    for (uint64_t n = 0; n < kScanItems && it != map_.end(); ++n, ++it) {
      ++tally_.items;
      if (!IsValueOf(it->first, it->second)) ++tally_.wrong_values;
    }
  }

  const Tally& tally() const { return tally_; }

 private:
  BtreeTarget::Map& map_;
  const uint64_t* numbers_;
  const uint8_t generation_;
  uint64_t link_ = 0;
  Tally tally_;
};

}  // namespace

BtreeTarget::BtreeTarget(uint64_t seed, BtreeMemory::Pages pages)
    : id_{.engine = pages == BtreeMemory::Pages::kHuge ? "btree_map_huge_pages" : "btree_map",
          .engine_options = "",
          .key_format = "fixed64",
          .key_shape = "integer"},
      key_writer_(KeyFormat::kFixed64, KeyShape::kRandom16, seed, 1),
      memory_(pages),
      map_(Map::key_compare(), Map::allocator_type(&memory_)) {}

Tally BtreeTarget::Run(const OpBatch& batch, LatencyProbe* probe) {
  BtreeOps ops(map_, batch);
  NoProbe none;
  if (probe == nullptr) {
    RunBatch(ops, batch, none);
  } else {
    RunBatch(ops, batch, *probe);
  }
  return ops.tally();
}

}  // namespace lodgekv::bench
