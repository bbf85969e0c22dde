// How a checkpoint of the journal writes the pool's pages to the medium: the files of a pool
// (file_sync.h), or a model of them in tests.
#pragma once

#include <cstdint>

namespace lodgekv::pmem {

class PoolWriteback {
 public:
  virtual ~PoolWriteback() = default;
  // Returns true when everything stored to [begin, begin + bytes) of the pool before the call is on
  // the medium. `begin` is a multiple of 4,096. Always false after the first failure.
  virtual bool WriteBack(uint64_t begin, uint64_t bytes) = 0;
  // The same for the whole pool.
  virtual bool WriteBackAll() = 0;
  // The same, with pages that the kernel takes for clean (dirty_page.h). Of the whole mapping,
  // which has `pool_bytes`.
  virtual bool RewriteAll(uint64_t pool_bytes) = 0;
  // At the first failure, before anybody is told, `word` of the pool becomes `value`: the process
  // that finds the same page cache learns of it.
  virtual void StoreAtFailure(uint64_t* word, uint64_t value) = 0;
};

}  // namespace lodgekv::pmem
