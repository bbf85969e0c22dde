#include "server/rpc/batch_wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <spdlog/fmt/fmt.h>

#include <string_view>

#include "lodgekv/v1/kv.pb.h"
#include "server/rpc/errors.h"
#include "server/rpc/request_check.h"

namespace lodgekv::server {
namespace {

using google::protobuf::internal::WireFormatLite;
using Verdict = BatchOnWire::Verdict;

constexpr uint32_t MessageTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

constexpr uint32_t kOperationTag = MessageTag(v1::BatchWriteRequest::kOperationsFieldNumber);
constexpr uint32_t kSessionOperationTag = MessageTag(v1::SessionRequest::kOperationsFieldNumber);
constexpr uint32_t kKeyTag = MessageTag(v1::BatchGetRequest::kKeysFieldNumber);
constexpr uint32_t kTtlTag = MessageTag(v1::Operation::kTtlFieldNumber);
// No field has it.
constexpr uint32_t kNoTag = 0;

class Walk {
 public:
  Walk(google::protobuf::io::ZeroCopyInputStream& wire, uint64_t max_entries)
      : wire_(&wire), max_entries_(max_entries) {}

  BatchOnWire Operations(uint32_t tag) {
    return Batch(tag, [this] { return Operation(); });
  }

  BatchOnWire Keys() {
    return Batch(kKeyTag, [this] { return SkipBytes() ? Verdict::kFine : Verdict::kNoMessage; });
  }

 private:
  template <class Entry>
  BatchOnWire Batch(uint32_t tag, Entry entry) {
    uint64_t fields = 0;
    uint64_t entries = 0;
    const Verdict verdict = Fields(
        tag, fields, [&] { return ++entries > max_entries_ ? Verdict::kTooManyEntries : entry(); });
    return {.verdict = verdict, .entries = entries};
  }

  Verdict Operation() {
    int length = 0;
    if (!wire_.ReadVarintSizeAsInt(&length)) return Verdict::kNoMessage;
    // Each field takes at least a byte. This keeps a flood of small operations cheap.
    if (static_cast<uint64_t>(length) <= kMaxFieldsOfAMessage) {
      return wire_.Skip(length) ? Verdict::kFine : Verdict::kNoMessage;
    }
    uint64_t fields = 0;
    return Within(length, [&] { return Fields(kTtlTag, fields, [&] { return Ttl(fields); }); });
  }

  // Its fields count as those of the operation.
  Verdict Ttl(uint64_t& fields) {
    int length = 0;
    if (!wire_.ReadVarintSizeAsInt(&length)) return Verdict::kNoMessage;
    if (++fields > kMaxFieldsOfAMessage) return Verdict::kTooManyFields;
    return Within(length, [&] { return Fields(kNoTag, fields, [] { return Verdict::kFine; }); });
  }

  // A nested message after its tag and length.
  template <class Content>
  Verdict Within(int length, Content content) {
    const auto outside = wire_.PushLimit(length);
    const Verdict verdict = content();
    if (verdict == Verdict::kFine && wire_.BytesUntilLimit() != 0) return Verdict::kNoMessage;
    wire_.PopLimit(outside);
    return verdict;
  }

  // The fields to the end of a message: `inner` handles those of this tag; all others are counted
  // and skipped, as are those of groups, which no message of ours has.
  template <class Inner>
  Verdict Fields(uint32_t inner_tag, uint64_t& fields, Inner inner) {
    uint64_t groups = 0;
    while (const uint32_t tag = wire_.ReadTag()) {
      Verdict verdict = Verdict::kFine;
      if (tag == inner_tag && groups == 0) {
        verdict = inner();
      } else if (++fields > kMaxFieldsOfAMessage) {
        verdict = Verdict::kTooManyFields;
      } else if (!Skip(tag, groups)) {
        verdict = Verdict::kNoMessage;
      }
      if (verdict != Verdict::kFine) return verdict;
    }
    return groups == 0 && wire_.ConsumedEntireMessage() ? Verdict::kFine : Verdict::kNoMessage;
  }

  // groups: the number of open groups.
  bool Skip(uint32_t tag, uint64_t& groups) {
    uint64_t ignored = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT: return wire_.ReadVarint64(&ignored);
      case WireFormatLite::WIRETYPE_FIXED64: return wire_.Skip(sizeof(uint64_t));
      case WireFormatLite::WIRETYPE_FIXED32: return wire_.Skip(sizeof(uint32_t));
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: return SkipBytes();
      case WireFormatLite::WIRETYPE_START_GROUP: ++groups; return true;
      case WireFormatLite::WIRETYPE_END_GROUP: return groups-- != 0;
    }
    return false;
  }

  bool SkipBytes() {
    int length = 0;
    return wire_.ReadVarintSizeAsInt(&length) && wire_.Skip(length);
  }

  google::protobuf::io::CodedInputStream wire_;
  const uint64_t max_entries_;
};

grpc::Status TooManyFieldsError(std::string_view field) {
  const std::string message = fmt::format("{}: more than {} fields in one of them, or outside them",
                                          field, kMaxFieldsOfAMessage);
  return InvalidFieldError(field, "TOO_MANY_FIELDS", message);
}

}  // namespace

BatchOnWire InspectBatch(BatchKind kind, google::protobuf::io::ZeroCopyInputStream& wire,
                         uint64_t max_entries) {
  Walk walk(wire, max_entries);
  switch (kind) {
    case BatchKind::kWrite: return walk.Operations(kOperationTag);
    case BatchKind::kSession: return walk.Operations(kSessionOperationTag);
    case BatchKind::kGet: break;
  }
  return walk.Keys();
}

std::optional<grpc::Status> CheckBatchOnWire(BatchKind kind,
                                             google::protobuf::io::ZeroCopyInputStream& wire,
                                             const Limits& limits, uint64_t* entries) {
  const std::string_view field = kind == BatchKind::kGet ? "keys" : "operations";
  const BatchOnWire batch = InspectBatch(kind, wire, limits.max_batch_operations);
  *entries = batch.entries;
  switch (batch.verdict) {
    case Verdict::kFine: return std::nullopt;
    case Verdict::kTooManyEntries: return BatchTooLongError(field, limits);
    case Verdict::kTooManyFields: return TooManyFieldsError(field);
    case Verdict::kNoMessage: break;
  }
  return NotAMessageError();
}

}  // namespace lodgekv::server
