// Where btree_map keeps its nodes: on the heap, whose pages are the system's choice and small by
// default, or in memory that is mapped by huge pages, as the engines' is. It matters by up to a
// third, so both are measured. Counts what is in use: the container does not tell. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace lodgekv::bench {

class BtreeMemory {
 public:
  enum class Pages : uint8_t { kHeap, kHuge };

  explicit BtreeMemory(Pages pages) : pages_(pages) {}
  ~BtreeMemory();
  BtreeMemory(const BtreeMemory&) = delete;
  BtreeMemory& operator=(const BtreeMemory&) = delete;

  void* Allocate(size_t bytes);
  void Deallocate(void* memory, size_t bytes);

  // In use.
  uint64_t bytes() const { return bytes_; }

 private:
  void* TakeHuge(size_t bytes);
  void Map();

  const Pages pages_;
  uint64_t bytes_ = 0;
  std::vector<void*> regions_;
  char* next_ = nullptr;  // of the last region
  size_t left_ = 0;
  std::map<size_t, std::vector<void*>> free_;  // by size: a map's nodes have two or three
};

}  // namespace lodgekv::bench
