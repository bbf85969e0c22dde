#include "index/node/log_reader.h"

#include "absl/strings/str_cat.h"
#include "index/pmem/crc32c.h"

namespace lodgekv {

using pmem::Crc32c;

LogHeaderWords LogReader::HeaderOf(const FoundLog& log) const {
  const uint64_t covered[3] = {log.version, log.entries, log.offset};
  return {log.version, log.entries, Crc32c(pool_.crc_seed(), covered, sizeof(covered))};
}

bool LogReader::ReadHeader(pmem::Offset offset, uint32_t unit_bytes, FoundLog* log) const {
  const auto* header = pool_.At<media::LogHeader>(offset);
  const auto says = [&](const LogHeaderWords& words) {
    *log = {offset, words.version, static_cast<unsigned>(words.entries)};
    return log->version != 0 && FoundLog::UnitBytes(log->entries) == unit_bytes &&
           words == HeaderOf(*log);
  };
  return says(LogHeaderWords::FirstOf(*header)) || says(LogHeaderWords::CopyOf(*header));
}

bool LogReader::HeaderIsDamaged(const FoundLog& log) const {
  const auto* header = pool_.At<media::LogHeader>(log.offset);
  const LogHeaderWords right = HeaderOf(log);
  const LogHeaderWords copy = LogHeaderWords::CopyOf(*header);
  return LogHeaderWords::FirstOf(*header) != right || (copy != right && copy != LogHeaderWords{});
}

uint32_t LogReader::CrcBase(pmem::Offset offset, uint64_t version) const {
  const uint64_t covered[2] = {pool_.medium().Canary("node.log_reader.any_version") ? 0 : version,
                               offset};
  return Crc32c(pool_.crc_seed(), covered, sizeof(covered));
}

bool LogReader::ReadOne(const FoundLog& log, unsigned position, FoundEntry* entry,
                        unsigned* left) const {
  const auto* at = pool_.At<media::LogEntry>(log.offset + sizeof(media::LogHeader)) + position;
  const LogEntryWords words = {at->key.LoadRelaxed(), at->value.LoadRelaxed(),
                               at->meta.LoadRelaxed(), at->checksums.LoadRelaxed()};
  entry->record_crc = static_cast<uint32_t>(words.checksums >> 32);
  const uint32_t crc =
      EntryCrc(CrcBase(log.offset, log.version), position, words, entry->record_crc);
  if (crc != static_cast<uint32_t>(words.checksums)) {
    // The canary takes every entry that was ever written.
    if (words.meta == 0 || !pool_.medium().Canary("node.log_reader.checksum_ignored")) return false;
  }
  entry->pair = {words.key, words.value};
  entry->sequence = media::LogSequenceOf(words.meta);
  entry->op = media::LogOpOf(words.meta);
  *left = media::LogLeftOf(words.meta);
  return true;
}

// After the tail, only entries of the one group whose fence was not reached may be whole.
bool LogReader::TailIsOneGroup(const FoundLog& log, unsigned tail) const {
  unsigned end = 0;
  for (unsigned i = tail; i < log.entries; ++i) {
    FoundEntry entry;
    unsigned left;
    if (!ReadOne(log, i, &entry, &left)) continue;
    if (end != 0 && end != i + left) return false;
    end = i + left;
  }
  return true;
}

bool LogReader::ReadAll(const FoundLog& log, std::vector<FoundEntry>* entries,
                        std::string* problem) const {
  entries->clear();
  size_t last_group = 0;
  unsigned tail = 0;
  while (tail < log.entries) {
    FoundEntry entry;
    unsigned left = 0;
    const size_t group = entries->size();
    unsigned expected = 0;
    unsigned i = tail;
    bool whole = false;
    while (!whole && i < log.entries && ReadOne(log, i, &entry, &left)) {
      if (i != tail && left != expected) break;
      entries->push_back(entry);
      expected = left - 1;
      ++i;
      whole = left == 0;
    }
    if (!whole) {
      if (!pool_.medium().Canary("node.log_reader.part_of_group")) entries->resize(group);
      break;
    }
    last_group = group;
    tail = i;
  }
  for (size_t i = last_group; i < entries->size(); ++i) (*entries)[i].in_last_group = true;
  if (TailIsOneGroup(log, tail)) return true;
  *problem = absl::StrCat("log at offset ", log.offset, " version ", log.version, ": entry ", tail,
                          " is damaged, entries behind it are whole");
  return false;
}

}  // namespace lodgekv
