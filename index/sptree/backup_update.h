// The entries of a new backup of the top layer (top_backup.h), made of those of the current one and
// of what has changed since. No leaf is looked at: where a leaf that was split off belongs follows
// from its left neighbour at that time. So entries whose words are equal are in the leaves' order.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "index/sptree/top_backup.h"

namespace lodgekv::sptree {

class BackupUpdate {
 public:
  // `changes` are whole.
  explicit BackupUpdate(TopBackup::Changes changes);

  // `old`: the next entry of the current backup. Adds it, unless its leaf was dropped, and all
  // leaves that were split off from it or from one of those.
  void Append(const TopBackup::Entry& old, std::vector<TopBackup::Entry>* entries);

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // A leaf that has changed.
  struct Change {
    uint32_t last_split = kNone;  // from it
    bool dropped = false;
  };
  void Visit(const TopBackup::Entry& entry, std::vector<TopBackup::Entry>* entries);

  std::vector<TopBackup::Split> splits_;
  std::vector<uint32_t> earlier_;  // for each split the one before it from the same leaf
  absl::flat_hash_map<pmem::Offset, Change> changed_;
  std::vector<uint32_t> pending_;  // splits to be visited, the next one last
};

}  // namespace lodgekv::sptree
