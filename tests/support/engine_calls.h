// Convenience calls of an engine for one key, and a scan as a vector.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "index/engine.h"

namespace lodgekv {

std::ostream& operator<<(std::ostream& out, Outcome outcome);

}  // namespace lodgekv

namespace lodgekv::test {

struct Pair {
  std::string key;
  std::string value;
  uint64_t version = 0;
  uint64_t expiry_unix_ms = 0;

  bool operator==(const Pair&) const = default;
};

WriteOp PutOp(std::string_view key, std::string_view value, Condition condition = Condition::kNone,
              uint64_t if_version = 0);
WriteOp DeleteOp(std::string_view key, Condition condition = Condition::kNone,
                 uint64_t if_version = 0);

WriteResult Apply(Engine& engine, const WriteOp& op, uint64_t now_unix_ms = 0);
WriteResult Put(Engine& engine, std::string_view key, std::string_view value);
WriteResult Delete(Engine& engine, std::string_view key);
ReadResult Get(Engine& engine, std::string_view key, uint64_t now_unix_ms = 0);

// One Write of all; returns one result per operation.
std::vector<WriteResult> Group(Engine& engine, const std::vector<WriteOp>& ops,
                               const WriteOptions& options = {});
std::vector<WriteResult> Atomic(Engine& engine, const std::vector<WriteOp>& ops,
                                uint64_t now_unix_ms = 0);

std::vector<Pair> ScanAll(Engine& engine, const ScanOptions& options = {});
std::vector<std::string> ScanKeys(Engine& engine, const ScanOptions& options = {});

// Printable form of a key or value that may be long or binary: at most 40 bytes, escaped, with the
// length.
std::string Show(std::string_view bytes);

}  // namespace lodgekv::test
