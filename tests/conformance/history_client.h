// One thread's client of an engine: makes operations, and records each call's and return's time and
// what the answer says about its key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "index/engine.h"
#include "tests/support/key_sets.h"
#include "tests/support/linearizability.h"

namespace lodgekv::test {

// By number of key: its complete history. Threads keep separate histories and merge them.
class Histories {
 public:
  explicit Histories(size_t keys) : of_key_(keys) {}

  void Add(size_t key, const RegisterOp& op) { of_key_[key].push_back(op); }
  void Merge(const Histories& other);
  size_t operations() const;
  // The first key whose history no order explains.
  std::optional<std::string> FindAnomaly() const;

 private:
  std::vector<std::vector<RegisterOp>> of_key_;
};

class HistoryClient {
 public:
  HistoryClient(Engine& engine, KeyFormat format, size_t keys, uint32_t thread);

  void Read(const std::vector<size_t>& keys);
  void Put(size_t key);
  void PutIfAbsent(size_t key);
  void PutIfPresent(size_t key);
  // Reads, then replaces the value if its version is still current.
  void ReadAndReplace(size_t key);
  void Delete(size_t key);
  void DeleteIfPresent(size_t key);
  // Puts and deletes of several keys, all different; every third with a condition.
  void Group(const std::vector<size_t>& keys, bool atomic);

  const Histories& histories() const { return histories_; }
  // Mistakes outside of histories: an outcome or a value that is never right.
  const std::vector<std::string>& mistakes() const { return mistakes_; }

 private:
  struct Planned {
    size_t key;
    WriteOp op;
    uint64_t id;        // of the value put
    uint64_t expected;  // with if-version: id of the value that has it
  };

  Planned Plan(size_t key, WriteKind kind, Condition condition);
  void Execute(std::vector<Planned>& planned, bool atomic);
  void Note(const Planned& planned, const WriteResult& result, bool atomic, int64_t call,
            int64_t ret);
  uint64_t IdOfRead(size_t key, const ReadResult& result);
  void Mistake(size_t key, std::string_view what);

  Engine& engine_;
  const KeyFormat format_;
  const uint32_t thread_;
  std::vector<std::string> keys_;
  std::vector<std::string> values_;  // of the current operations
  uint64_t next_value_ = 0;
  Histories histories_;
  std::vector<std::string> mistakes_;
};

}  // namespace lodgekv::test
