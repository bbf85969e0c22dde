#include "server/rpc/point_answer.h"

#include <grpc/slice.h>
#include <grpcpp/support/slice.h>

#include <array>
#include <string>
#include <utility>

#include "lodgekv/v1/kv.pb.h"
#include "server/rpc/wire_writer.h"

namespace lodgekv::server {
namespace {

using v1::GetResponse;

// So many bytes, which write(writer) fills.
template <class Write>
grpc::Slice Written(size_t bytes, Write write) {
  grpc_slice slice = grpc_slice_malloc(bytes);
  wire::FieldWriter writer(GRPC_SLICE_START_PTR(slice));
  write(writer);
  return grpc::Slice(slice, grpc::Slice::STEAL_REF);
}

template <class Write>
grpc::ByteBuffer OnePiece(size_t bytes, Write write) {
  const grpc::Slice slice = Written(bytes, write);
  return grpc::ByteBuffer(&slice, 1);
}

size_t BytesBehindValue(const ReadResult& result) {
  return wire::NumberBytes(result.version) + wire::ExpiryBytes(result.expiry_unix_ms);
}

void WriteBehindValue(const ReadResult& result, wire::FieldWriter& writer) {
  writer.Number(GetResponse::kVersionFieldNumber, result.version);
  writer.Expiry(GetResponse::kExpireTimeFieldNumber, result.expiry_unix_ms);
}

// The string's memory, which the slice frees.
grpc::Slice Adopt(std::string&& text) {
  auto* owned = new std::string(std::move(text));
  return grpc::Slice(
      owned->data(), owned->size(), [](void* string) { delete static_cast<std::string*>(string); },
      owned);
}

// The value between what is before it and what is behind it.
grpc::ByteBuffer InPieces(ReadResult& result) {
  const size_t value_bytes = result.value.size();
  const size_t before = wire::kBoolBytes + wire::NestedBytes(value_bytes) - value_bytes;
  const std::array pieces{Written(before,
                                  [&](wire::FieldWriter& writer) {
                                    writer.Bool(GetResponse::kFoundFieldNumber, true);
                                    writer.BeginNested(GetResponse::kValueFieldNumber, value_bytes);
                                  }),
                          Adopt(std::move(result.value)),
                          Written(BytesBehindValue(result), [&](wire::FieldWriter& writer) {
                            WriteBehindValue(result, writer);
                          })};
  return grpc::ByteBuffer(pieces.data(), pieces.size());
}

}  // namespace

grpc::ByteBuffer GetAnswerOnWire(ReadResult& result) {
  if (!result.found) return OnePiece(0, [](wire::FieldWriter&) {});
  if (result.value.size() > kCopiedBytes) return InPieces(result);
  const size_t bytes = wire::kBoolBytes + wire::TextBytes(result.value) + BytesBehindValue(result);
  return OnePiece(bytes, [&](wire::FieldWriter& writer) {
    writer.Bool(GetResponse::kFoundFieldNumber, true);
    writer.Text(GetResponse::kValueFieldNumber, result.value);
    WriteBehindValue(result, writer);
  });
}

grpc::ByteBuffer PutAnswerOnWire(uint64_t version) {
  return OnePiece(wire::NumberBytes(version), [&](wire::FieldWriter& writer) {
    writer.Number(v1::PutResponse::kVersionFieldNumber, version);
  });
}

grpc::ByteBuffer DeleteAnswerOnWire(bool found) {
  return OnePiece(found ? wire::kBoolBytes : 0, [&](wire::FieldWriter& writer) {
    writer.Bool(v1::DeleteResponse::kFoundFieldNumber, found);
  });
}

}  // namespace lodgekv::server
