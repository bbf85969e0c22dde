#include "server/rpc/batch_request.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

namespace lodgekv::server {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr uint32_t NumberTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_VARINT);
}
constexpr uint32_t BytesTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// The fields of one message.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message)
      : in_(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size())) {}

  // Calls field(tag) for each: it reads or skips the field, and returns false if it cannot.
  template <class Field>
  bool ForEach(Field field) {
    while (const uint32_t tag = in_.ReadTag()) {
      if (!field(tag)) return false;
    }
    return in_.ConsumedEntireMessage();
  }

  // Numbers that are too large for `value` lose their upper bits, as with protobuf.
  template <class T>
  bool Number(T* value) {
    uint64_t number = 0;
    if (!in_.ReadVarint64(&number)) return false;
    *value = static_cast<T>(number);
    return true;
  }
  bool Bytes(std::string_view* value) {
    int size = 0;
    if (!in_.ReadVarintSizeAsInt(&size)) return false;
    const void* data = nullptr;
    int left = 0;
    if (size == 0) {
      *value = {};
      return true;
    }
    if (!in_.GetDirectBufferPointer(&data, &left) || left < size) return false;
    *value = {static_cast<const char*>(data), static_cast<size_t>(size)};
    return in_.Skip(size);
  }
  bool Skip(uint32_t tag) { return WireFormatLite::SkipField(&in_, tag); }

 private:
  google::protobuf::io::CodedInputStream in_;
};

bool ParseTtl(std::string_view message, TtlFields* ttl) {
  using google::protobuf::Duration;
  FieldReader reader(message);
  return reader.ForEach([&](uint32_t tag) {
    switch (tag) {
      case NumberTag(Duration::kSecondsFieldNumber): return reader.Number(&ttl->seconds);
      case NumberTag(Duration::kNanosFieldNumber): return reader.Number(&ttl->nanos);
      default: return reader.Skip(tag);
    }
  });
}

bool ReadTtl(FieldReader& reader, std::optional<TtlFields>* ttl) {
  std::string_view message;
  if (!reader.Bytes(&message)) return false;
  if (!ttl->has_value()) ttl->emplace();
  return ParseTtl(message, &**ttl);
}

// A number that no version knows is kept, to be refused by name.
template <class Enum>
bool ReadEnum(FieldReader& reader, Enum* value) {
  int32_t number = 0;
  if (!reader.Number(&number)) return false;
  *value = static_cast<Enum>(number);
  return true;
}

bool ParseOperation(std::string_view message, OperationFields* operation) {
  using v1::Operation;
  FieldReader reader(message);
  return reader.ForEach([&](uint32_t tag) {
    switch (tag) {
      case NumberTag(Operation::kKindFieldNumber): return ReadEnum(reader, &operation->kind);
      case BytesTag(Operation::kKeyFieldNumber): return reader.Bytes(&operation->key);
      case BytesTag(Operation::kValueFieldNumber): return reader.Bytes(&operation->value);
      case NumberTag(Operation::kConditionFieldNumber):
        return ReadEnum(reader, &operation->condition);
      case NumberTag(Operation::kIfVersionFieldNumber):
        return reader.Number(&operation->if_version);
      case BytesTag(Operation::kTtlFieldNumber): return ReadTtl(reader, &operation->ttl);
      default: return reader.Skip(tag);
    }
  });
}

bool ParseEntry(std::string_view message, OperationFields* operation) {
  return ParseOperation(message, operation);
}
bool ParseEntry(std::string_view message, std::string_view* key) {
  *key = message;
  return true;
}

template <class Batch>
bool Parse(std::string_view bytes, uint32_t entry_tag, uint32_t cost_tag, Batch* batch) {
  FieldReader reader(bytes);
  return reader.ForEach([&](uint32_t tag) {
    if (tag == entry_tag) {
      std::string_view message;
      return reader.Bytes(&message) && ParseEntry(message, &batch->entries.emplace_back());
    }
    return tag == cost_tag ? reader.Number(&batch->want_cost) : reader.Skip(tag);
  });
}

}  // namespace

bool ParseBatch(std::string_view bytes, uint64_t entries, BatchWriteFields* batch) {
  using v1::BatchWriteRequest;
  batch->entries.reserve(entries);
  return Parse(bytes, BytesTag(BatchWriteRequest::kOperationsFieldNumber),
               NumberTag(BatchWriteRequest::kWantCostFieldNumber), batch);
}

bool ParseBatch(std::string_view bytes, uint64_t entries, BatchGetFields* batch) {
  using v1::BatchGetRequest;
  batch->entries.reserve(entries);
  return Parse(bytes, BytesTag(BatchGetRequest::kKeysFieldNumber),
               NumberTag(BatchGetRequest::kWantCostFieldNumber), batch);
}

}  // namespace lodgekv::server
