// The requests of one kind of call, about records of PutSource. Keys of a batch are drawn from a
// part of the key space each: all are different, and all of them uniform. A scan begins at a key
// that is drawn of those with at least a batch of others behind them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/server_bench/put_source.h"

namespace lodgekv::server_bench {

// kScan: one page of a batch. kScanAll: every record, in pages as the server likes them.
// kSessionGet, kSessionPut: a message of a batch in a session that stays open.
enum class CallKind : uint8_t {
  kGet,
  kPut,
  kBatchGet,
  kBatchWrite,
  kScan,
  kScanAll,
  kSessionGet,
  kSessionPut,
};

inline bool IsSession(CallKind kind) {
  return kind == CallKind::kSessionGet || kind == CallKind::kSessionPut;
}

struct Record {
  std::string key;
  std::string value;
};

class RequestSource {
 public:
  // batch: records of a request; of single calls 1.
  RequestSource(CallKind kind, uint64_t batch, uint64_t key_space, uint64_t seed,
                size_t value_bytes = kValueBytes)
      : kind_(kind),
        source_(seed, key_space, value_bytes),
        key_space_(key_space),
        records_(batch) {}

  // The path that gRPC has for the call.
  static std::string_view PathOf(CallKind kind);

  // The records of the next request; valid until the next call.
  const std::vector<Record>& NextRecords();
  // The next request on the wire.
  std::string Next() { return OnWire(NextRecords()); }
  // The same, of records `first` and those that follow it.
  std::string NextFrom(uint64_t first);

 private:
  std::string OnWire(const std::vector<Record>& records) const;
  // Of `part` keys each, from `first` on.
  void Draw(uint64_t first, uint64_t part);
  void DrawScanStart();

  const CallKind kind_;
  PutSource source_;
  const uint64_t key_space_;
  std::vector<Record> records_;
};

}  // namespace lodgekv::server_bench
