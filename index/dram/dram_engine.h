// A std::map behind the engine contract. It is the oracle of every model test, so it is complete
// and simple rather than fast. Volatile: it loses everything at exit.
//
// Invariants, under mutex_:
//   - every key and value has a length that the key format allows;
//   - every version is below next_version_ and 0 where the key format has no versions;
//   - bytes_ is the sum of the lengths of all keys and values.
//
// A Write holds mutex_ exclusively and is therefore atomic for every reader; a Scan copies page by
// page under the shared mutex_ and calls its visitor without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

#include "index/engine.h"

namespace lodgekv::dram {

struct Value {
  std::string bytes;
  uint64_t version = 0;
  uint64_t expiry_unix_ms = 0;

  bool LiveAt(uint64_t now_unix_ms) const {
    return expiry_unix_ms == 0 || expiry_unix_ms > now_unix_ms;
  }
};

// What the key format of a pool supports.
struct Format {
  KeyFormat key_format = KeyFormat::kBytes;
  bool versions = true;  // versions and expiry; not in `fixed64`, not with inline pairs

  bool KeyFits(std::string_view key) const;
  bool ValueFits(std::string_view value) const;
  bool Allows(const WriteOp& op) const;
};

class DramEngine final : public Engine {
 public:
  explicit DramEngine(const Format& format) : format_(format) {}

  [[nodiscard]] Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                              const WriteOptions& options) override;
  [[nodiscard]] Outcome Read(std::span<const std::string_view> keys, std::span<ReadResult> results,
                             const ReadOptions& options) override;
  [[nodiscard]] Outcome Scan(const ScanOptions& options, ScanVisitor visitor) override;
  [[nodiscard]] uint64_t CountKeys() override;
  [[nodiscard]] CheckReport Check() override;
  [[nodiscard]] uint64_t AppliedIndex() const override;
  void VisitCounters(CounterVisitor visitor) const override;
  [[nodiscard]] MemoryUse GetMemoryUse() const override;
  absl::Status Close() override;

 private:
  using Map = std::map<std::string, Value, std::less<>>;

  // One page of a scan, and whether more may follow it.
  struct Page {
    struct Item {
      std::string key;
      Value value;
    };
    std::vector<Item> items;
    bool last = false;
  };

  Outcome WriteGroup(std::span<const WriteOp> ops, std::span<WriteResult> results,
                     const WriteOptions& options);
  Outcome WriteAtomic(std::span<const WriteOp> ops, std::span<WriteResult> results,
                      const WriteOptions& options);
  // Fills result for an op whose condition does not hold; otherwise leaves outcome kOk and sets
  // `found`.
  void TestCondition(const WriteOp& op, uint64_t now_unix_ms, WriteResult& result) const;
  void Apply(const WriteOp& op, WriteResult& result);
  Page CopyPage(const ScanOptions& options, const std::string& resume, bool resumed) const;

  const Format format_;
  mutable std::shared_mutex mutex_;
  Map map_;
  uint64_t next_version_ = 1;
  uint64_t bytes_ = 0;
  uint64_t applied_index_ = 0;
  uint64_t puts_ = 0;
  uint64_t deletes_ = 0;
  uint64_t conditions_failed_ = 0;
  uint64_t groups_aborted_ = 0;
};

}  // namespace lodgekv::dram
