// Checks a batch on the wire before it is parsed: two bytes of a message can become a hundred in
// memory, and a batch that is refused is not worth parsing.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>

#include "server/base/limits.h"

namespace lodgekv::server {

enum class BatchKind : uint8_t { kWrite, kGet, kSession };

// Fields of one operation, including those of its ttl, and fields of the batch other than
// operations or keys; unknown fields count, too. kv.proto has 8 and 3; the rest is for later
// versions.
inline constexpr uint64_t kMaxFieldsOfAMessage = 32;

struct BatchOnWire {
  enum class Verdict : uint8_t {
    kFine,  // as far as this check can tell: only the parser knows whether it is a message
    kTooManyEntries,
    kTooManyFields,
    kNoMessage,
  };
  Verdict verdict = Verdict::kFine;
  uint64_t entries = 0;  // operations or keys; of an invalid batch those before the error
};

// Reads no further than it needs for a refusal.
BatchOnWire InspectBatch(BatchKind kind, google::protobuf::io::ZeroCopyInputStream& wire,
                         uint64_t max_entries);

// Nothing if the batch may be parsed: it has so many `entries`. Else the error to answer with.
std::optional<grpc::Status> CheckBatchOnWire(BatchKind kind,
                                             google::protobuf::io::ZeroCopyInputStream& wire,
                                             const Limits& limits, uint64_t* entries);

}  // namespace lodgekv::server
