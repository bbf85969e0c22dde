// For tests: memory for an arena pool, which can be reopened as after a crash.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "index/pmem/pool.h"

namespace lodgekv::pmem {

class TestArena {
 public:
  explicit TestArena(size_t bytes, uint64_t chunk_bytes = 8192)
      : bytes_(bytes), memory_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes))) {
    // Fresh space on a medium is not zero.
    std::memset(memory_.get(), 0xa5, bytes);
    options_.memory = {memory_.get(), bytes};
    options_.chunk_bytes = chunk_bytes;
  }

  static PoolIdentity Identity() {
    PoolIdentity identity;
    identity.engine = "test";
    identity.media_version = 7;
    return identity;
  }

  std::unique_ptr<Pool> Create(const PoolIdentity& identity = Identity()) {
    return Value(Pool::CreateArena(options_, identity));
  }
  std::unique_ptr<Pool> Open() { return Value(Pool::OpenArena(options_)); }
  absl::Status OpenError() { return Pool::OpenArena(options_).status(); }

  Pool::ArenaOptions& options() { return options_; }
  std::byte* data() { return memory_.get(); }
  size_t size() const { return bytes_; }

 private:
  struct FreeMemory {
    void operator()(std::byte* p) const { std::free(p); }
  };
  static std::unique_ptr<Pool> Value(absl::StatusOr<std::unique_ptr<Pool>> pool) {
    EXPECT_TRUE(pool.ok()) << pool.status();
    return pool.ok() ? *std::move(pool) : nullptr;
  }

  const size_t bytes_;
  std::unique_ptr<std::byte, FreeMemory> memory_;
  Pool::ArenaOptions options_;
};

}  // namespace lodgekv::pmem
