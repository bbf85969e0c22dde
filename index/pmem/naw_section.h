// An 8-byte-atomic-write section (NAW; LB+-Tree, Definition 2.1): anything may be written to space
// that nobody reads, then one store of a word makes all of it valid.
//
//   NawSection section(medium);
//   section.Flush(node, bytes);   // written before, through the medium
//   section.Commit(word, value);  // fence, store, persist
//
// A crash that leaves the old word leaves nothing of the section; one that leaves the new word
// leaves all of it. Not thread-safe; the caller excludes other writers of the word.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/pmem/medium.h"

namespace lodgekv::pmem {

class NawSection {
 public:
  explicit NawSection(Medium& medium) : medium_(medium) {}

  // [address, address + bytes) has been written and must be durable before the commit.
  void Flush(const void* address, size_t bytes) { medium_.Flush(address, bytes); }

  void Commit(Word& word, uint64_t value) {
    medium_.Fence();
    medium_.Store(word, value);
    medium_.Persist(&word, sizeof(word));
  }

 private:
  Medium& medium_;
};

}  // namespace lodgekv::pmem
