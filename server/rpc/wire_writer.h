// Writes fields of proto3 messages, none that is 0, false or empty, to memory of the size that was
// computed before.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "server/rpc/expiry.h"

namespace lodgekv::server::wire {

using google::protobuf::internal::WireFormatLite;

inline constexpr size_t kTagBytes = 1;  // of fields 1 to 15
inline constexpr size_t kBoolBytes = kTagBytes + WireFormatLite::kBoolSize;

inline size_t NumberBytes(uint64_t number) {
  return number == 0 ? 0 : kTagBytes + WireFormatLite::UInt64Size(number);
}
inline size_t NestedBytes(size_t content) {
  return kTagBytes + WireFormatLite::LengthDelimitedSize(content);
}
inline size_t TextBytes(std::string_view value) {
  return value.empty() ? 0 : NestedBytes(value.size());
}
inline google::protobuf::Timestamp TimestampOf(uint64_t unix_ms) {
  google::protobuf::Timestamp timestamp;
  SetTimestamp(unix_ms, &timestamp);
  return timestamp;
}
// Of an expiry; 0: there is none.
inline size_t ExpiryBytes(uint64_t unix_ms) {
  return unix_ms == 0 ? 0 : NestedBytes(TimestampOf(unix_ms).ByteSizeLong());
}

class FieldWriter {
 public:
  explicit FieldWriter(uint8_t* to) : to_(to) {}

  void Bool(int field, bool value) {
    if (value) to_ = WireFormatLite::WriteBoolToArray(field, value, to_);
  }
  void Number(int field, uint64_t value) {
    if (value != 0) to_ = WireFormatLite::WriteUInt64ToArray(field, value, to_);
  }
  void Text(int field, std::string_view value) {
    if (value.empty()) return;
    BeginNested(field, value.size());
    std::memcpy(to_, value.data(), value.size());
    to_ += value.size();
  }
  void Expiry(int field, uint64_t unix_ms) {
    if (unix_ms == 0) return;
    const google::protobuf::Timestamp timestamp = TimestampOf(unix_ms);
    BeginNested(field, timestamp.ByteSizeLong());
    to_ = timestamp.SerializeWithCachedSizesToArray(to_);
  }
  // Its content, of so many bytes, is written next.
  void BeginNested(int field, size_t bytes) {
    to_ = WireFormatLite::WriteTagToArray(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, to_);
    to_ = google::protobuf::io::CodedOutputStream::WriteVarint32ToArray(
        static_cast<uint32_t>(bytes), to_);
  }
  // Where the next field goes.
  const uint8_t* end() const { return to_; }

 private:
  uint8_t* to_;
};

}  // namespace lodgekv::server::wire
