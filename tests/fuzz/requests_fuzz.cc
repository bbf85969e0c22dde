// Requests as bytes from the wire: accepted requests respect every limit that kv.proto promises,
// and refusals name field and reason.
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>

#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "server/rpc/batch_request.h"
#include "server/rpc/batch_wire.h"
#include "server/rpc/request_check.h"
#include "tests/fuzz/fuzz_target.h"

namespace lodgekv::server {
namespace {

constexpr uint64_t kNow = 1'700'000'000'000;

// Small enough that an input reaches them.
Limits SmallLimits() {
  Limits limits;
  limits.max_key_size = 12;
  limits.max_value_size = 24;
  limits.max_batch_size = 48;
  limits.max_batch_operations = 5;
  return limits;
}

CheckContext MakeContext(uint8_t kind) {
  static const Limits limits = SmallLimits();
  CheckContext context{.limits = limits, .pool = {}, .now_unix_ms = kNow};
  if ((kind & 1) != 0) context.pool.key_format = KeyFormat::kFixed64;
  if ((kind & 2) != 0 && (kind & 1) == 0) context.pool.inline_pairs = true;
  return context;
}

// An error of a field: INVALID_ARGUMENT, with details that match its message.
void CheckRefusal(const grpc::Status& error) {
  const std::string& message = error.error_message();
  FUZZ_REQUIRE(error.error_code() == grpc::StatusCode::INVALID_ARGUMENT, message);
  FUZZ_REQUIRE(fuzz::IsOnePrintableLine(message), message);
  google::rpc::Status status;
  FUZZ_REQUIRE(status.ParseFromString(error.error_details()), message);
  FUZZ_REQUIRE(status.details_size() == 2 && status.message() == message, message);
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  FUZZ_REQUIRE(status.details(0).UnpackTo(&bad) && status.details(1).UnpackTo(&info), message);
  FUZZ_REQUIRE(info.domain() == "lodgekv" && !info.reason().empty(), message);
  FUZZ_REQUIRE(bad.field_violations_size() == 1, message);
  const std::string& field = bad.field_violations(0).field();
  FUZZ_REQUIRE(!field.empty() && message.compare(0, field.size() + 1, field + ":") == 0, message);
}

bool KeyIsFine(std::string_view key, const CheckContext& context) {
  if (context.pool.key_format == KeyFormat::kFixed64) return key.size() == 8;
  return !key.empty() && key.size() <= context.limits.max_key_size;
}

bool ValueIsFine(std::string_view value, const CheckContext& context) {
  if (context.pool.key_format == KeyFormat::kFixed64) return value.size() == 8;
  return value.size() <= context.limits.max_value_size;
}

template <class Request>
void CheckCondition(const Request& request, const CheckContext& context, const WriteOp& op) {
  const bool by_version = request.condition() == v1::CONDITION_IF_VERSION;
  FUZZ_REQUIRE(request.condition() >= 0 && request.condition() <= 3, "condition");
  FUZZ_REQUIRE(by_version == (request.if_version() != 0), "if_version");
  FUZZ_REQUIRE(!by_version || context.pool.HasVersions(), "if_version in this pool");
  FUZZ_REQUIRE(op.if_version == request.if_version(), "if_version");
  FUZZ_REQUIRE(static_cast<int>(op.condition) == static_cast<int>(request.condition()),
               "condition");
}

// An accepted Put, or PUT of a batch.
template <class Request>
void CheckPut(const Request& request, const CheckContext& context, const WriteOp& op) {
  FUZZ_REQUIRE(op.kind == WriteKind::kPut, "kind");
  FUZZ_REQUIRE(op.key == request.key() && op.value == request.value(), "key and value");
  FUZZ_REQUIRE(KeyIsFine(op.key, context) && ValueIsFine(op.value, context), "sizes");
  CheckCondition(request, context, op);
  if (!request.has_ttl()) {
    FUZZ_REQUIRE(op.expiry_unix_ms == 0, "no ttl");
    return;
  }
  FUZZ_REQUIRE(context.pool.HasVersions(), "ttl in this pool");
  FUZZ_REQUIRE(op.expiry_unix_ms > context.now_unix_ms, "a ttl that has ended");
  FUZZ_REQUIRE(op.expiry_unix_ms <= kLastUnixMs, "a ttl behind the last moment");
  const uint64_t life = op.expiry_unix_ms - context.now_unix_ms;
  FUZZ_REQUIRE(life / 1000 - static_cast<uint64_t>(request.ttl().seconds()) <= 1, "ttl");
}

template <class Request>
void CheckDelete(const Request& request, const CheckContext& context, const WriteOp& op) {
  FUZZ_REQUIRE(op.kind == WriteKind::kDelete && op.expiry_unix_ms == 0, "kind");
  FUZZ_REQUIRE(op.key == request.key() && KeyIsFine(op.key, context), "key");
  CheckCondition(request, context, op);
}

void CheckRequest(const v1::PutRequest& request, const PointFields& put,
                  const CheckContext& context) {
  FUZZ_REQUIRE(put.op.value == request.value(), "value");
  FUZZ_REQUIRE(put.op.ttl.has_value() == request.has_ttl(), "ttl");
  WriteOp op;
  if (const auto error = ToPut(put.op, context, op)) return CheckRefusal(*error);
  // The planted bug: a ttl is rounded down to whole milliseconds.
  if (fuzz::BugIsPlanted() && request.ttl().nanos() % 1'000'000 != 0) --op.expiry_unix_ms;
  CheckPut(request, context, op);
}

void CheckRequest(const v1::DeleteRequest& request, const PointFields& del,
                  const CheckContext& context) {
  WriteOp op;
  if (const auto error = ToDelete(del.op, context, op)) return CheckRefusal(*error);
  CheckDelete(request, context, op);
}

void CheckFields(const OperationFields& fields, const v1::Operation& operation) {
  FUZZ_REQUIRE(fields.kind == operation.kind(), "kind");
  FUZZ_REQUIRE(fields.condition == operation.condition(), "condition");
  FUZZ_REQUIRE(fields.key == operation.key() && fields.value == operation.value(), "strings");
  FUZZ_REQUIRE(fields.if_version == operation.if_version(), "if_version");
  FUZZ_REQUIRE(fields.ttl.has_value() == operation.has_ttl(), "ttl");
  if (!fields.ttl) return;
  FUZZ_REQUIRE(fields.ttl->seconds == operation.ttl().seconds(), "seconds");
  FUZZ_REQUIRE(fields.ttl->nanos == operation.ttl().nanos(), "nanos");
}

// What both parsers saw.
void CheckRequest(const v1::BatchWriteRequest& request, const BatchWriteFields& batch,
                  const CheckContext& context) {
  for (int i = 0; i < request.operations_size(); ++i) {
    CheckFields(batch.entries[static_cast<size_t>(i)], request.operations(i));
  }
  std::vector<WriteOp> ops;
  uint64_t told = 0;
  if (const auto error = ToWriteOps(batch.entries, context, ops, told)) return CheckRefusal(*error);
  FUZZ_REQUIRE(ops.size() == batch.entries.size(), "size");
  FUZZ_REQUIRE(ops.size() <= context.limits.max_batch_operations, "operations");
  std::set<std::string_view> keys;
  uint64_t bytes = 0;
  for (int i = 0; i < request.operations_size(); ++i) {
    const v1::Operation& operation = request.operations(i);
    const WriteOp& op = ops[static_cast<size_t>(i)];
    FUZZ_REQUIRE(keys.insert(operation.key()).second, "a key occurs twice");
    bytes += operation.key().size() + operation.value().size();
    if (operation.kind() == v1::OPERATION_KIND_PUT) {
      CheckPut(operation, context, op);
      continue;
    }
    FUZZ_REQUIRE(operation.kind() == v1::OPERATION_KIND_DELETE, "kind");
    FUZZ_REQUIRE(operation.value().empty() && !operation.has_ttl(), "a delete with a value");
    CheckDelete(operation, context, op);
  }
  FUZZ_REQUIRE(bytes == told && bytes <= context.limits.max_batch_size, "bytes");
}

void CheckGet(const v1::Operation& get, const CheckContext& context, const SessionOp& op) {
  FUZZ_REQUIRE(op.is_get && op.op.key == get.key() && KeyIsFine(get.key(), context), "a get's key");
  FUZZ_REQUIRE(get.value().empty() && !get.has_ttl() && get.condition() == 0, "a get that writes");
}

void CheckRequest(const v1::SessionRequest& request, const SessionFields& message,
                  const CheckContext& context) {
  FUZZ_REQUIRE(message.id == request.id() && message.atomic == request.atomic(), "id, atomic");
  for (int i = 0; i < request.operations_size(); ++i) {
    CheckFields(message.entries[static_cast<size_t>(i)], request.operations(i));
  }
  std::vector<SessionOp> ops;
  uint64_t told = 0;
  if (const auto error = ToSessionOps(message, context, ops, told)) return CheckRefusal(*error);
  FUZZ_REQUIRE(ops.size() == message.entries.size(), "size");
  FUZZ_REQUIRE(ops.size() <= context.limits.max_batch_operations, "operations");
  std::set<std::string_view> keys;
  uint64_t bytes = 0;
  for (int i = 0; i < request.operations_size(); ++i) {
    const v1::Operation& operation = request.operations(i);
    const SessionOp& op = ops[static_cast<size_t>(i)];
    FUZZ_REQUIRE(keys.insert(operation.key()).second || !request.atomic(), "a key occurs twice");
    FUZZ_REQUIRE(!op.is_get || !request.atomic(), "an atomic message with a get");
    bytes += operation.key().size() + operation.value().size();
    switch (operation.kind()) {
      case v1::OPERATION_KIND_PUT: CheckPut(operation, context, op.op); break;
      case v1::OPERATION_KIND_DELETE: CheckDelete(operation, context, op.op); break;
      default: CheckGet(operation, context, op);
    }
  }
  FUZZ_REQUIRE(bytes == told && bytes <= context.limits.max_batch_size, "bytes");
}

void CheckRequest(const v1::BatchGetRequest& request, const BatchGetFields& batch,
                  const CheckContext& context) {
  for (int i = 0; i < request.keys_size(); ++i) {
    FUZZ_REQUIRE(batch.entries[static_cast<size_t>(i)] == request.keys(i), "a key");
  }
  uint64_t told = 0;
  if (const auto error = CheckBatchGet(batch.entries, context, told)) return CheckRefusal(*error);
  FUZZ_REQUIRE(batch.entries.size() <= context.limits.max_batch_operations, "keys");
  uint64_t bytes = 0;
  for (const std::string& key : request.keys()) {
    FUZZ_REQUIRE(KeyIsFine(key, context), "key");
    bytes += key.size();
  }
  FUZZ_REQUIRE(bytes == told && bytes <= context.limits.max_batch_size, "bytes");
}

int EntriesOf(const v1::BatchWriteRequest& request) { return request.operations_size(); }
int EntriesOf(const v1::SessionRequest& request) { return request.operations_size(); }
int EntriesOf(const v1::BatchGetRequest& request) { return request.keys_size(); }

// The pre-parser's view of a batch and what is parsed of it equal what protobuf parses. Blocks of 3
// bytes: a field may span two.
template <class Request, class Fields>
void CheckBatch(BatchKind kind, std::string_view bytes, const CheckContext& context) {
  using Verdict = BatchOnWire::Verdict;
  google::protobuf::io::ArrayInputStream wire(bytes.data(), static_cast<int>(bytes.size()), 3);
  const uint64_t most = context.limits.max_batch_operations;
  const BatchOnWire batch = InspectBatch(kind, wire, most);
  FUZZ_REQUIRE((batch.verdict == Verdict::kTooManyEntries) == (batch.entries > most), "entries");
  Request request;
  const bool parses = request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  Fields fields;
  const bool fine = batch.verdict == Verdict::kFine && ParseBatch(bytes, batch.entries, &fields);
  if (!parses) return;
  FUZZ_REQUIRE(batch.verdict != Verdict::kNoMessage, "the parser takes it");
  FUZZ_REQUIRE(batch.entries <= static_cast<uint64_t>(EntriesOf(request)), "entries");
  FUZZ_REQUIRE(
      batch.verdict != Verdict::kFine || batch.entries == static_cast<uint64_t>(EntriesOf(request)),
      "entries");
  if (batch.verdict != Verdict::kFine) return;
  FUZZ_REQUIRE(fine, "protobuf takes it");
  FUZZ_REQUIRE(fields.want_cost == request.want_cost(), "want_cost");
  FUZZ_REQUIRE(fields.entries.size() == batch.entries, "entries");
  CheckRequest(request, fields, context);
}

// Of a request about one key, likewise.
template <class Request>
void CheckPoint(bool (*parse)(std::string_view, PointFields*), std::string_view bytes,
                const CheckContext& context) {
  Request request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  PointFields fields;
  FUZZ_REQUIRE(parse(bytes, &fields), "protobuf takes it");
  FUZZ_REQUIRE(fields.op.key == request.key(), "key");
  FUZZ_REQUIRE(fields.want_cost == request.want_cost(), "want_cost");
  if constexpr (!std::is_same_v<Request, v1::GetRequest>) CheckRequest(request, fields, context);
}

}  // namespace
}  // namespace lodgekv::server

// The first byte: bits 0 and 1 the pool, bits 2 to 4 the call.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lodgekv::server;
  namespace v1 = lodgekv::v1;
  lodgekv::fuzz::InputReader input(data, size);
  const uint8_t kind = input.Byte();
  const CheckContext context = MakeContext(kind);
  switch (kind >> 2 & 7) {
    case 0: CheckPoint<v1::PutRequest>(&ParsePut, input.Rest(), context); break;
    case 1: CheckPoint<v1::DeleteRequest>(&ParseDelete, input.Rest(), context); break;
    case 2:
      CheckBatch<v1::BatchWriteRequest, BatchWriteFields>(BatchKind::kWrite, input.Rest(), context);
      break;
    case 5: CheckPoint<v1::GetRequest>(&ParseGet, input.Rest(), context); break;
    case 4:
      CheckBatch<v1::SessionRequest, SessionFields>(BatchKind::kSession, input.Rest(), context);
      break;
    default:
      CheckBatch<v1::BatchGetRequest, BatchGetFields>(BatchKind::kGet, input.Rest(), context);
  }
  return 0;
}
