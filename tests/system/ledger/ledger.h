// A record of what the clients of a daemon did and were answered, kept outside of it, and the
// comparison with its content after it was killed and restarted.
//
// INVARIANTS
// - A key is known by its number: a range in the upper bits, the place within it in the low 12.
//   Range 0 is written by all threads of all clients, each other one by a single thread, which
//   waits for each answer: when the daemon dies, at most one of its writes is under way.
// - Each value is written once: its id names client, cycle and number of the write.
// - Times are those of one clock for all processes of the machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "index/engine.h"
#include "tests/support/linearizability.h"

namespace lodgekv::test {

inline constexpr unsigned kPlaceBits = 12;
inline constexpr uint64_t kSharedRange = 0;

constexpr uint64_t KeyNumber(uint64_t range, uint64_t place) { return range << kPlaceBits | place; }
constexpr uint64_t RangeOf(uint64_t number) { return number >> kPlaceBits; }

// The keys of a range are neighbours, in the order of their places; in `bytes` they are of several
// lengths.
std::string LedgerKey(KeyFormat format, uint64_t number);
// Nothing when it is the key of no number.
std::optional<uint64_t> LedgerNumber(KeyFormat format, std::string_view key);

struct LedgerEntry {
  uint64_t key = 0;
  RegisterOp op;
  uint64_t batch = 0;  // the writes of one atomic batch bear one number; 0: none
};

// A put of a value that expires after milliseconds. Its key is never written again.
struct ShortLived {
  uint64_t key = 0;
  uint64_t id = 0;
  bool acknowledged = false;
  int64_t first_end_ms = 0;  // of the system's clock: it may be gone from here on
  int64_t last_end_ms = 0;   // it must be gone from here on
};

// What one client, or all of them, did between two restarts.
struct Ledger {
  std::vector<LedgerEntry> entries = {};
  std::vector<ShortLived> short_lived = {};
  std::vector<std::string> mistakes = {};  // answers that are never right, as the client saw them

  void Add(const Ledger& other);
  void Write(const std::string& path) const;
};
absl::StatusOr<Ledger> ReadLedger(const std::string& path);

// What a daemon has: by number of key the id of its value.
using State = std::map<uint64_t, uint64_t>;

struct Found {
  State values = {};
  std::vector<std::string> strangers = {};  // keys and values that nobody wrote, in words
  int64_t begin_ms = 0;                     // when the reading of it began and ended
  int64_t end_ms = 0;
};

struct Findings {
  uint64_t acknowledged = 0;  // writes
  uint64_t unknown = 0;       // writes without an answer
  uint64_t reads = 0;
  uint64_t keys = 0;
  std::vector<std::string> problems;  // one for each key, batch or value that must not be so

  std::string Line() const;
};

// `before`: what it had at the beginning, short-lived ones that were alive then among it.
Findings Check(const State& before, const Ledger& ledger, const Found& found);

}  // namespace lodgekv::test
