// The answers of batches as kv.proto has them on the wire, written from the engine's results into
// the memory that gRPC sends.
#pragma once

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <span>

#include "index/engine.h"

namespace lodgekv::server {

// A BatchWriteResponse.
grpc::Slice WriteResultsOnWire(std::span<const WriteResult> results);

// A part of a BatchGetResponse, which is all of its parts one after another: the lookups of keys
// whose outcome is kOk.
grpc::Slice LookupsOnWire(std::span<const ReadResult> results);

}  // namespace lodgekv::server
