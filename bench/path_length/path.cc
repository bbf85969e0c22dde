#include "bench/path_length/path.h"

#include <iterator>

namespace lodgekv::bench {
namespace {

struct PathRow {
  std::string_view name;
  size_t operations;
  size_t share;  // of the calls wanted this path has one in so many
};
constexpr PathRow kRows[] = {
    {"nothing", 1, 5},          {"read", 1, 5},
    {"read_absent", 1, 5},      {"read_group_16", 16, 10},
    {"scan_100", 100, 10},      {"put", 1, 1},
    {"update", 1, 1},           {"delete", 1, 1},
    {"put_group_16", 16, 10},   {"put_group_64", 64, 20},
    {"put_batch_100", 100, 50},
};
static_assert(std::size(kRows) == kPaths);

}  // namespace

std::string_view PathName(Path path) { return kRows[static_cast<size_t>(path)].name; }

size_t OperationsOf(Path path) { return kRows[static_cast<size_t>(path)].operations; }

uint64_t CallsOf(Path path, uint64_t wanted) {
  return wanted / kRows[static_cast<size_t>(path)].share;
}

std::string_view WayName(Way way) {
  switch (way) {
    case Way::kShort: return "";
    case Way::kFlush: return "flush";
    case Way::kSplit: return "split";
  }
  return "";
}

}  // namespace lodgekv::bench
