// One thread of a client: it writes and reads at random until the daemon is gone, and keeps a
// ledger of it. Every call waits for its answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/lodgekv_client.h"
#include "tests/support/random.h"
#include "tests/system/ledger/ledger.h"

namespace lodgekv::test {

struct LoadOptions {
  std::string server;
  KeyFormat format = KeyFormat::kBytes;
  bool has_versions = true;
  uint64_t cycle = 0;
  uint64_t client = 0;  // number among all threads of all clients, from 0
  uint64_t operations = UINT64_MAX;
};

// The range that a client alone writes, and the one of its short-lived values.
constexpr uint64_t OwnRange(uint64_t client) { return 1 + client; }
constexpr uint64_t ShortLivedRange(uint64_t client, uint64_t cycle) {
  return uint64_t{1} << 24 | cycle << 8 | client;
}

class LoadClient {
 public:
  explicit LoadClient(const LoadOptions& options);

  // Returns when a call gets no answer.
  Ledger Run();

 private:
  void Step();
  void Put();
  void Delete();
  void PutIfAbsent();
  void PutIfPresent();
  void PutIfVersion();
  void PutShortLived();
  void Batch();
  void Get();
  void ScanOwn();
  void ScanShared();

  uint64_t DrawKey();
  // A unique value, with its id.
  std::string NewValue(uint64_t* id);
  client::PutOptions DrawOptions(const client::WriteCondition& condition = {});
  // Makes the call and notes what it said: `applied` of a call that was answered, or may have been
  // applied; `refused` of one whose condition did not hold.
  void Note(uint64_t key, int64_t call, const absl::Status& status, const RegisterOp& applied,
            const RegisterOp& refused, uint64_t batch = 0);
  // False when the daemon is gone, or the answer is one that must not be.
  bool Answered(const absl::Status& status, const char* what);
  uint64_t IdOfValue(uint64_t key, const std::string& value);
  void Mistake(uint64_t key, const std::string& what);

  const LoadOptions options_;
  const std::unique_ptr<client::Client> client_;
  Random random_;
  uint64_t values_ = 0;
  uint64_t short_lived_ = 0;
  bool gone_ = false;
  // What its own range holds.
  State own_;
  Ledger ledger_;
};

// The id that a value bears, or kAbsent when no client wrote it.
uint64_t LedgerValueId(KeyFormat format, const std::string& value);

}  // namespace lodgekv::test
