#include "server/rpc/batch_request.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

namespace lodgekv::server {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr uint32_t NumberTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_VARINT);
}
constexpr uint32_t BytesTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// The fields of one message. Tags, lengths and numbers are nearly always of one byte, and lengths
// of two: those are read in place, and all else by protobuf's own reader from where this one is.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  // Calls field(tag) for each: it reads or skips the field, and returns false if it cannot.
  template <class Field>
  bool ForEach(Field field) {
    while (!rest_.empty()) {
      const uint32_t tag = Tag();
      if (tag == 0 || !field(tag)) return false;
    }
    return true;
  }

  // Numbers that are too large for `value` lose their upper bits, as with protobuf.
  template <class T>
  bool Number(T* value) {
    uint64_t number = 0;
    if (!ReadShort(&number) &&
        !BySlowReader([&](CodedInputStream& in) { return in.ReadVarint64(&number); })) {
      return false;
    }
    *value = static_cast<T>(number);
    return true;
  }
  bool Bytes(std::string_view* value) {
    size_t size = 0;
    if (!Size(&size) || size > rest_.size()) return false;
    *value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool Skip(uint32_t tag) {
    return BySlowReader([&](CodedInputStream& in) { return WireFormatLite::SkipField(&in, tag); });
  }

 private:
  static constexpr size_t kLongByte = 0x80;  // another byte of the number follows

  size_t ByteAt(size_t at) const { return static_cast<uint8_t>(rest_[at]); }

  // True: it was a number of one byte.
  template <class T>
  bool ReadShort(T* number) {
    if (rest_.empty() || ByteAt(0) >= kLongByte) return false;
    *number = static_cast<T>(ByteAt(0));
    rest_.remove_prefix(1);
    return true;
  }

  // 0: there is none, or it is 0, which no field has.
  uint32_t Tag() {
    uint32_t tag = 0;
    if (!ReadShort(&tag)) {
      (void)BySlowReader([&](CodedInputStream& in) { return (tag = in.ReadTag()) != 0; });
    }
    return tag;
  }

  bool Size(size_t* size) {
    if (ReadShort(size)) return true;
    if (rest_.size() >= 2 && ByteAt(1) < kLongByte) {
      *size = ByteAt(0) - kLongByte + ByteAt(1) * kLongByte;
      rest_.remove_prefix(2);
      return true;
    }
    int read = 0;
    if (!BySlowReader([&](CodedInputStream& in) { return in.ReadVarintSizeAsInt(&read); })) {
      return false;
    }
    *size = static_cast<size_t>(read);
    return true;
  }

  template <class Read>
  bool BySlowReader(Read read) {
    CodedInputStream in(reinterpret_cast<const uint8_t*>(rest_.data()),
                        static_cast<int>(rest_.size()));
    if (!read(in)) return false;
    rest_.remove_prefix(static_cast<size_t>(in.CurrentPosition()));
    return true;
  }

  std::string_view rest_;
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

// `other` reads a field that is neither an entry nor want_cost, or skips it.
template <class Batch, class Other>
bool Parse(std::string_view bytes, uint32_t entry_tag, uint32_t cost_tag, Batch* batch,
           Other other) {
  FieldReader reader(bytes);
  return reader.ForEach([&](uint32_t tag) {
    if (tag == entry_tag) {
      std::string_view message;
      return reader.Bytes(&message) && ParseEntry(message, &batch->entries.emplace_back());
    }
    return tag == cost_tag ? reader.Number(&batch->want_cost) : other(reader, tag);
  });
}

bool SkipOther(FieldReader& reader, uint32_t tag) { return reader.Skip(tag); }

}  // namespace

bool ParseGet(std::string_view bytes, PointFields* request) {
  using v1::GetRequest;
  FieldReader reader(bytes);
  return reader.ForEach([&](uint32_t tag) {
    switch (tag) {
      case BytesTag(GetRequest::kKeyFieldNumber): return reader.Bytes(&request->op.key);
      case NumberTag(GetRequest::kWantCostFieldNumber): return reader.Number(&request->want_cost);
      default: return reader.Skip(tag);
    }
  });
}

bool ParsePut(std::string_view bytes, PointFields* request) {
  using v1::PutRequest;
  OperationFields& op = request->op;
  FieldReader reader(bytes);
  return reader.ForEach([&](uint32_t tag) {
    switch (tag) {
      case BytesTag(PutRequest::kKeyFieldNumber): return reader.Bytes(&op.key);
      case BytesTag(PutRequest::kValueFieldNumber): return reader.Bytes(&op.value);
      case NumberTag(PutRequest::kConditionFieldNumber): return ReadEnum(reader, &op.condition);
      case NumberTag(PutRequest::kIfVersionFieldNumber): return reader.Number(&op.if_version);
      case BytesTag(PutRequest::kTtlFieldNumber): return ReadTtl(reader, &op.ttl);
      case NumberTag(PutRequest::kWantCostFieldNumber): return reader.Number(&request->want_cost);
      default: return reader.Skip(tag);
    }
  });
}

bool ParseDelete(std::string_view bytes, PointFields* request) {
  using v1::DeleteRequest;
  OperationFields& op = request->op;
  FieldReader reader(bytes);
  return reader.ForEach([&](uint32_t tag) {
    switch (tag) {
      case BytesTag(DeleteRequest::kKeyFieldNumber): return reader.Bytes(&op.key);
      case NumberTag(DeleteRequest::kConditionFieldNumber): return ReadEnum(reader, &op.condition);
      case NumberTag(DeleteRequest::kIfVersionFieldNumber): return reader.Number(&op.if_version);
      case NumberTag(DeleteRequest::kWantCostFieldNumber):
        return reader.Number(&request->want_cost);
      default: return reader.Skip(tag);
    }
  });
}

bool ParseBatch(std::string_view bytes, uint64_t entries, BatchWriteFields* batch) {
  using v1::BatchWriteRequest;
  batch->entries.reserve(entries);
  return Parse(bytes, BytesTag(BatchWriteRequest::kOperationsFieldNumber),
               NumberTag(BatchWriteRequest::kWantCostFieldNumber), batch, SkipOther);
}

bool ParseBatch(std::string_view bytes, uint64_t entries, BatchGetFields* batch) {
  using v1::BatchGetRequest;
  batch->entries.reserve(entries);
  return Parse(bytes, BytesTag(BatchGetRequest::kKeysFieldNumber),
               NumberTag(BatchGetRequest::kWantCostFieldNumber), batch, SkipOther);
}

bool ParseBatch(std::string_view bytes, uint64_t entries, SessionFields* message) {
  using v1::SessionRequest;
  message->entries.reserve(entries);
  return Parse(bytes, BytesTag(SessionRequest::kOperationsFieldNumber),
               NumberTag(SessionRequest::kWantCostFieldNumber), message,
               [message](FieldReader& reader, uint32_t tag) {
                 switch (tag) {
                   case NumberTag(SessionRequest::kIdFieldNumber):
                     return reader.Number(&message->id);
                   case NumberTag(SessionRequest::kAtomicFieldNumber):
                     return reader.Number(&message->atomic);
                   default: return reader.Skip(tag);
                 }
               });
}

}  // namespace lodgekv::server
