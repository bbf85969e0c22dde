// The paths through an engine whose length is counted, and the ways that one call may take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lodgekv::bench {

// In the order of docs/benchmarks.md. Puts bring new keys.
enum class Path : uint8_t {
  kNothing,  // an empty call: what counting itself costs
  kRead,
  kReadAbsent,
  kReadGroup16,
  kScan100,
  kPut,
  kUpdate,
  kDelete,
  kPutGroup16,
  kPutGroup64,
  kPutBatch100,  // atomic
};
inline constexpr size_t kPaths = 11;

std::string_view PathName(Path path);

// Operations of a call; of a scan, pairs.
size_t OperationsOf(Path path);

// Of `wanted` calls those that this path has: all, where they go several ways, and fewer of groups,
// of which each is as good as many.
uint64_t CallsOf(Path path, uint64_t wanted);

// Whether calls of one operation are told apart by their way.
constexpr bool HasWays(Path path) {
  return path == Path::kPut || path == Path::kUpdate || path == Path::kDelete;
}

// What a write set off, by the engine's own counters.
enum class Way : uint8_t {
  kShort,  // nothing
  kFlush,  // a buffer was flushed
  kSplit,  // a leaf or a node was split, with a flush or without
};
inline constexpr size_t kWays = 3;

std::string_view WayName(Way way);

}  // namespace lodgekv::bench
