// A pool in memory for one fuzz target.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>

#include "index/pmem/pool.h"
#include "tests/fuzz/fuzz_target.h"

namespace lodgekv::fuzz {

class ArenaPool {
 public:
  explicit ArenaPool(size_t bytes, uint64_t chunk_bytes, pmem::Tracer* tracer = nullptr)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes))) {
    std::memset(memory_.get(), 0xa5, bytes);
    pmem::Pool::ArenaOptions options;
    options.memory = {memory_.get(), bytes};
    options.chunk_bytes = chunk_bytes;
    options.tracer = tracer;
    pmem::PoolIdentity identity;
    identity.engine = "fuzz";
    identity.media_version = 1;
    identity.pool_id.fill(0x5a);
    auto pool = pmem::Pool::CreateArena(options, identity);
    FUZZ_REQUIRE(pool.ok(), pool.status().ToString());
    pool_ = *std::move(pool);
  }

  pmem::Pool& pool() { return *pool_; }

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, FreeMemory> memory_;
  std::unique_ptr<pmem::Pool> pool_;
};

}  // namespace lodgekv::fuzz
