#include "server/rpc/batch_answer.h"

#include <grpc/slice.h>

#include "lodgekv/v1/kv.pb.h"
#include "server/rpc/wire_writer.h"

namespace lodgekv::server {
namespace {

using wire::FieldWriter;
using wire::NestedBytes;

size_t ContentBytes(const WriteResult& result) {
  return (result.found ? wire::kBoolBytes : 0) + wire::NumberBytes(result.version);
}

void WriteContent(const WriteResult& result, FieldWriter& writer) {
  writer.Bool(v1::WriteResult::kFoundFieldNumber, result.found);
  writer.Number(v1::WriteResult::kVersionFieldNumber, result.version);
}

size_t ContentBytes(const ReadResult& result) {
  if (!result.found) return 0;
  return wire::kBoolBytes + wire::TextBytes(result.value) + wire::NumberBytes(result.version) +
         wire::ExpiryBytes(result.expiry_unix_ms);
}

void WriteContent(const ReadResult& result, FieldWriter& writer) {
  if (!result.found) return;
  writer.Bool(v1::Lookup::kFoundFieldNumber, true);
  writer.Text(v1::Lookup::kValueFieldNumber, result.value);
  writer.Number(v1::Lookup::kVersionFieldNumber, result.version);
  writer.Expiry(v1::Lookup::kExpireTimeFieldNumber, result.expiry_unix_ms);
}

template <class Result>
grpc::Slice ResultsOnWire(int field, std::span<const Result> results) {
  size_t bytes = 0;
  for (const Result& result : results) bytes += NestedBytes(ContentBytes(result));
  grpc_slice slice = grpc_slice_malloc(bytes);
  FieldWriter writer(GRPC_SLICE_START_PTR(slice));
  for (const Result& result : results) {
    writer.BeginNested(field, ContentBytes(result));
    WriteContent(result, writer);
  }
  return grpc::Slice(slice, grpc::Slice::STEAL_REF);
}

}  // namespace

grpc::Slice WriteResultsOnWire(std::span<const WriteResult> results) {
  return ResultsOnWire(v1::BatchWriteResponse::kResultsFieldNumber, results);
}

grpc::Slice LookupsOnWire(std::span<const ReadResult> results) {
  return ResultsOnWire(v1::BatchGetResponse::kResultsFieldNumber, results);
}

}  // namespace lodgekv::server
