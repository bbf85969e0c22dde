#include "index/sptree/backup_update.h"

#include <utility>

namespace lodgekv::sptree {

BackupUpdate::BackupUpdate(TopBackup::Changes changes) : splits_(std::move(changes.splits)) {
  changed_.reserve(splits_.size() + changes.dropped.size());
  earlier_.reserve(splits_.size());
  for (const TopBackup::Split& split : splits_) {
    const auto index = static_cast<uint32_t>(earlier_.size());
    earlier_.push_back(std::exchange(changed_[split.from].last_split, index));
  }
  for (const pmem::Offset leaf : changes.dropped) changed_[leaf].dropped = true;
}

// A later split from the same leaf is nearer to it: so each one comes before the earlier one, and
// with all that was split off from it.
void BackupUpdate::Append(const TopBackup::Entry& old, std::vector<TopBackup::Entry>* entries) {
  Visit(old, entries);
  while (!pending_.empty()) {
    const uint32_t split = std::exchange(pending_.back(), earlier_[pending_.back()]);
    if (pending_.back() == kNone) pending_.pop_back();
    Visit(splits_[split].leaf, entries);
  }
}

void BackupUpdate::Visit(const TopBackup::Entry& entry, std::vector<TopBackup::Entry>* entries) {
  const auto at = changed_.find(entry.leaf);
  if (at == changed_.end()) return entries->push_back(entry);
  const Change& change = at->second;
  if (!change.dropped) entries->push_back(entry);
  if (change.last_split != kNone) pending_.push_back(change.last_split);
}

}  // namespace lodgekv::sptree
