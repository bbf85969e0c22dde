#include "bench/server_bench/put_source.h"

namespace lodgekv::server_bench {

PutSource::PutSource(uint64_t seed, uint64_t key_space, size_t value_bytes)
    : random_(seed), key_space_(key_space), key_(kKeyBytes, '0'), text_(random_, value_bytes) {
  Next();
}

void PutSource::NextBelow(uint64_t first, uint64_t count) {
  const uint64_t number = first + random_.Below(count);
  workload::WriteHex(workload::Mix(2 * number + 1), key_.data());
  workload::WriteHex(workload::Mix(2 * number + 2), key_.data() + workload::kWordBytes);
  value_begin_ = text_.Draw(random_);
}

}  // namespace lodgekv::server_bench
