// The answers of the calls about one key as kv.proto has them on the wire.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "index/engine.h"

namespace lodgekv::server {

// A GetResponse of a read whose outcome is kOk. A value of more than kCopiedBytes is not copied:
// its memory is taken out of the result, and belongs to the answer then.
inline constexpr uint64_t kCopiedBytes = 4'096;
grpc::ByteBuffer GetAnswerOnWire(ReadResult& result);

// A PutResponse.
grpc::ByteBuffer PutAnswerOnWire(uint64_t version);

// A DeleteResponse.
grpc::ByteBuffer DeleteAnswerOnWire(bool found);

}  // namespace lodgekv::server
