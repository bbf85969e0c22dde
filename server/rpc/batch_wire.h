// What a batch on the wire would become, found before anything of it is built: two bytes of a
// message can make a hundred in memory, and a batch that is refused is not worth taking apart.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>

#include "server/base/limits.h"

namespace lodgekv::server {

enum class BatchKind : uint8_t { kWrite, kGet };

// Fields of one operation, those of its ttl among them, and of the batch beside its operations or
// keys; unknown ones count as any. kv.proto has 8 and 1: what is left is for later ones.
inline constexpr uint64_t kMaxFieldsOfAMessage = 32;

struct BatchOnWire {
  enum class Verdict : uint8_t {
    kFine,  // as far as can be seen so: only the parser knows it to be a message
    kTooManyEntries,
    kTooManyFields,
    kNoMessage,
  };
  Verdict verdict = Verdict::kFine;
  uint64_t entries = 0;  // operations or keys; of a batch that is not fine those before it showed
};

// Reads no further than it must to refuse.
BatchOnWire LookAtBatch(BatchKind kind, google::protobuf::io::ZeroCopyInputStream& wire,
                        uint64_t max_entries);

// Nothing when the batch may be parsed, else the error to answer with.
std::optional<grpc::Status> CheckBatchOnWire(BatchKind kind,
                                             google::protobuf::io::ZeroCopyInputStream& wire,
                                             const Limits& limits);

}  // namespace lodgekv::server
