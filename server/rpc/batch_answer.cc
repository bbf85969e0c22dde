#include "server/rpc/batch_answer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpc/slice.h>

#include "lodgekv/v1/kv.pb.h"
#include "server/rpc/expiry.h"

namespace lodgekv::server {
namespace {

using google::protobuf::Timestamp;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

constexpr size_t kTagBytes = 1;  // of fields 1 to 15
constexpr size_t kBoolBytes = kTagBytes + WireFormatLite::kBoolSize;

size_t NumberBytes(uint64_t number) {
  return number == 0 ? 0 : kTagBytes + WireFormatLite::UInt64Size(number);
}
size_t NestedBytes(size_t content) {
  return kTagBytes + WireFormatLite::LengthDelimitedSize(content);
}

// Fields of proto3: none that is 0, false or empty.
class FieldWriter {
 public:
  explicit FieldWriter(uint8_t* to) : to_(to) {}

  void Bool(int field, bool value) {
    if (value) to_ = WireFormatLite::WriteBoolToArray(field, value, to_);
  }
  void Number(int field, uint64_t value) {
    if (value != 0) to_ = WireFormatLite::WriteUInt64ToArray(field, value, to_);
  }
  void Bytes(int field, const std::string& value) {
    if (!value.empty()) to_ = WireFormatLite::WriteBytesToArray(field, value, to_);
  }
  // Its content, of so many bytes, is written next.
  void BeginNested(int field, size_t bytes) {
    to_ = WireFormatLite::WriteTagToArray(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, to_);
    to_ = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(bytes), to_);
  }
  void Content(const Timestamp& message) { to_ = message.SerializeWithCachedSizesToArray(to_); }

 private:
  uint8_t* to_;
};

size_t ContentBytes(const WriteResult& result) {
  return (result.found ? kBoolBytes : 0) + NumberBytes(result.version);
}

void WriteContent(const WriteResult& result, FieldWriter& writer) {
  writer.Bool(v1::WriteResult::kFoundFieldNumber, result.found);
  writer.Number(v1::WriteResult::kVersionFieldNumber, result.version);
}

Timestamp ExpiryOf(const ReadResult& result) {
  Timestamp expiry;
  SetTimestamp(result.expiry_unix_ms, &expiry);
  return expiry;
}

size_t ContentBytes(const ReadResult& result) {
  if (!result.found) return 0;
  size_t bytes = kBoolBytes + NumberBytes(result.version);
  if (!result.value.empty()) bytes += NestedBytes(result.value.size());
  if (result.expiry_unix_ms != 0) bytes += NestedBytes(ExpiryOf(result).ByteSizeLong());
  return bytes;
}

void WriteContent(const ReadResult& result, FieldWriter& writer) {
  if (!result.found) return;
  writer.Bool(v1::Lookup::kFoundFieldNumber, true);
  writer.Bytes(v1::Lookup::kValueFieldNumber, result.value);
  writer.Number(v1::Lookup::kVersionFieldNumber, result.version);
  if (result.expiry_unix_ms == 0) return;
  const Timestamp expiry = ExpiryOf(result);
  writer.BeginNested(v1::Lookup::kExpireTimeFieldNumber, expiry.ByteSizeLong());
  writer.Content(expiry);
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
