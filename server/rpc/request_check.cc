#include "server/rpc/request_check.h"

#include <spdlog/fmt/fmt.h>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {
namespace {

using MaybeError = std::optional<grpc::Status>;

constexpr size_t kFixedBytes = 8;
constexpr int64_t kMaxTtlSeconds = static_cast<int64_t>(kLastUnixMs / 1000);
constexpr int32_t kNanosPerMs = 1'000'000;
constexpr int32_t kMaxNanos = 999'999'999;

// Formatted only for errors: valid requests do not pay for it.
std::string Path(const Place& place, std::string_view field) {
  if (place.index < 0) return std::string(field);
  return fmt::format("{}[{}]{}{}", place.list, place.index, field.empty() ? "" : ".", field);
}

grpc::Status InvalidError(const Place& place, std::string_view field, std::string_view reason,
                          std::string_view message) {
  const std::string path = Path(place, field);
  return InvalidFieldError(path, reason, fmt::format("{}: {}", path, message));
}

grpc::Status NotEightBytesError(const Place& place, std::string_view field, size_t size) {
  return InvalidError(
      place, field, "NOT_IN_KEY_FORMAT",
      fmt::format("{} bytes, and the pool's key format fixed64 takes exactly 8", size));
}

MaybeError CheckValue(std::string_view value, const Place& place, const CheckContext& context) {
  if (context.pool.key_format == KeyFormat::kFixed64) {
    if (value.size() == kFixedBytes) return std::nullopt;
    return NotEightBytesError(place, "value", value.size());
  }
  if (value.size() <= context.limits.max_value_size) return std::nullopt;
  return InvalidError(place, "value", "VALUE_TOO_LARGE",
                      fmt::format("{} bytes, more than max_value_size, {}", value.size(),
                                  context.limits.max_value_size));
}

MaybeError CheckCondition(v1::Condition condition, uint64_t if_version, const Place& place,
                          const CheckContext& context, WriteOp& op) {
  if (condition != v1::CONDITION_IF_VERSION && if_version != 0) {
    return InvalidError(
        place, "if_version", "VERSION_WITHOUT_CONDITION",
        fmt::format("{}, but the condition is not CONDITION_IF_VERSION", if_version));
  }
  switch (condition) {
    case v1::CONDITION_UNSPECIFIED: op.condition = Condition::kNone; return std::nullopt;
    case v1::CONDITION_IF_ABSENT: op.condition = Condition::kIfAbsent; return std::nullopt;
    case v1::CONDITION_IF_PRESENT: op.condition = Condition::kIfPresent; return std::nullopt;
    case v1::CONDITION_IF_VERSION: break;
    default:
      return InvalidError(
          place, "condition", "UNKNOWN_CONDITION",
          fmt::format("{} is not a condition that this server knows", static_cast<int>(condition)));
  }
  if (!context.pool.HasVersions()) {
    return InvalidError(place, "condition", "NOT_IN_KEY_FORMAT",
                        fmt::format("the pool's key format, {}, has no versions, so that "
                                    "CONDITION_IF_VERSION cannot be checked",
                                    context.pool.Name()));
  }
  if (if_version == 0) {
    return InvalidError(place, "if_version", "VERSION_ZERO",
                        "0 is no version; for a key without a value use CONDITION_IF_ABSENT");
  }
  op.condition = Condition::kIfVersion;
  op.if_version = if_version;
  return std::nullopt;
}

MaybeError CheckTtl(const TtlFields& ttl, const Place& place, const CheckContext& context,
                    WriteOp& op) {
  if (!context.pool.HasVersions()) {
    return InvalidError(
        place, "ttl", "NOT_IN_KEY_FORMAT",
        fmt::format("the pool's key format, {}, has no room for an expiry", context.pool.Name()));
  }
  if (ttl.seconds < 0 || (ttl.seconds == 0 && ttl.nanos <= 0)) {
    return InvalidError(
        place, "ttl", "BAD_TTL",
        fmt::format("{} s and {} ns; it must be more than 0", ttl.seconds, ttl.nanos));
  }
  if (ttl.nanos < 0 || ttl.nanos > kMaxNanos) {
    return InvalidError(place, "ttl", "BAD_TTL",
                        fmt::format("{} s and {} ns; nanos must be from 0 to {}", ttl.seconds,
                                    ttl.nanos, kMaxNanos));
  }
  const auto ms_of_nanos = static_cast<uint64_t>((ttl.nanos + kNanosPerMs - 1) / kNanosPerMs);
  if (ttl.seconds <= kMaxTtlSeconds) {
    op.expiry_unix_ms =
        context.now_unix_ms + static_cast<uint64_t>(ttl.seconds) * 1000 + ms_of_nanos;
    if (op.expiry_unix_ms <= kLastUnixMs) return std::nullopt;
  }
  return InvalidError(
      place, "ttl", "BAD_TTL",
      fmt::format("{} s expires after the year 9999; leave ttl out for a value that never expires",
                  ttl.seconds));
}

MaybeError CheckPut(const OperationFields& put, const Place& place, const CheckContext& context,
                    WriteOp& op) {
  op = {};
  op.kind = WriteKind::kPut;
  op.key = put.key;
  op.value = put.value;
  MaybeError error = CheckKey(put.key, place, context);
  if (!error) error = CheckValue(put.value, place, context);
  if (!error) error = CheckCondition(put.condition, put.if_version, place, context, op);
  if (!error && put.ttl) error = CheckTtl(*put.ttl, place, context, op);
  return error;
}

MaybeError CheckDelete(const OperationFields& del, const Place& place, const CheckContext& context,
                       WriteOp& op) {
  op = {};
  op.kind = WriteKind::kDelete;
  op.key = del.key;
  MaybeError error = CheckKey(del.key, place, context);
  if (!error) error = CheckCondition(del.condition, del.if_version, place, context, op);
  return error;
}

MaybeError CheckBatchDelete(const OperationFields& operation, const Place& place,
                            const CheckContext& context, WriteOp& op) {
  if (!operation.value.empty()) {
    return InvalidError(place, "value", "VALUE_WITHOUT_PUT", "a DELETE takes no value");
  }
  if (operation.ttl) return InvalidError(place, "ttl", "TTL_WITHOUT_PUT", "a DELETE takes no ttl");
  return CheckDelete(operation, place, context, op);
}

MaybeError CheckSessionGet(const OperationFields& operation, const Place& place,
                           const CheckContext& context, WriteOp& op) {
  op = {};
  op.key = operation.key;
  if (!operation.value.empty()) {
    return InvalidError(place, "value", "VALUE_WITHOUT_PUT", "a GET takes no value");
  }
  if (operation.ttl) return InvalidError(place, "ttl", "TTL_WITHOUT_PUT", "a GET takes no ttl");
  if (operation.condition != v1::CONDITION_UNSPECIFIED || operation.if_version != 0) {
    return InvalidError(place, "condition", "CONDITION_WITHOUT_WRITE", "a GET takes no condition");
  }
  return CheckKey(operation.key, place, context);
}

// What takes operations, and which kinds of them.
struct Takes {
  std::string_view what;
  bool gets = false;
};
constexpr Takes kBatchTakes{"a batch takes OPERATION_KIND_PUT and OPERATION_KIND_DELETE"};
constexpr Takes kAtomicTakes{
    "an atomic message takes OPERATION_KIND_PUT and OPERATION_KIND_DELETE"};
constexpr Takes kSessionTakes{
    "a message takes OPERATION_KIND_PUT, OPERATION_KIND_DELETE and OPERATION_KIND_GET", true};

MaybeError CheckOperation(const OperationFields& operation, const Place& place, const Takes& takes,
                          const CheckContext& context, WriteOp& op) {
  switch (operation.kind) {
    case v1::OPERATION_KIND_PUT: return CheckPut(operation, place, context, op);
    case v1::OPERATION_KIND_DELETE: return CheckBatchDelete(operation, place, context, op);
    case v1::OPERATION_KIND_GET:
      if (takes.gets) return CheckSessionGet(operation, place, context, op);
      break;
    default: break;
  }
  return InvalidError(place, "kind", "BAD_KIND",
                      fmt::format("{}; {}", static_cast<int>(operation.kind), takes.what));
}

// Finds a key that occurs twice in an atomic batch.
class DistinctKeys {
 public:
  explicit DistinctKeys(size_t keys) { keys_.reserve(keys); }

  MaybeError Add(std::string_view key, const Place& place) {
    if (keys_.emplace(key.data(), key.size()).second) return std::nullopt;
    return InvalidError(place, "key", "KEY_TWICE",
                        "the key occurs earlier in the batch; an atomic batch takes each key once");
  }

 private:
  absl::flat_hash_set<absl::string_view> keys_;
};

Place OperationAt(size_t index) { return {.list = "operations", .index = static_cast<int>(index)}; }

MaybeError CheckBatchBytes(uint64_t bytes, std::string_view field, const Limits& limits) {
  if (bytes <= limits.max_batch_size) return std::nullopt;
  return InvalidError({}, field, "BATCH_TOO_LARGE",
                      fmt::format("{} bytes of keys and values, more than max_batch_size, {}",
                                  bytes, limits.max_batch_size));
}

}  // namespace

MaybeError CheckKey(std::string_view key, const Place& place, const CheckContext& context) {
  const std::string_view field = place.is_key ? "" : "key";
  if (context.pool.key_format == KeyFormat::kFixed64) {
    if (key.size() == kFixedBytes) return std::nullopt;
    return NotEightBytesError(place, field, key.size());
  }
  if (key.empty())
    return InvalidError(place, field, "KEY_EMPTY", "empty; a key has 1 byte or more");
  if (key.size() <= context.limits.max_key_size) return std::nullopt;
  return InvalidError(
      place, field, "KEY_TOO_LONG",
      fmt::format("{} bytes, more than max_key_size, {}", key.size(), context.limits.max_key_size));
}

MaybeError ToPut(const OperationFields& put, const CheckContext& context, WriteOp& op) {
  return CheckPut(put, {}, context, op);
}

MaybeError ToDelete(const OperationFields& del, const CheckContext& context, WriteOp& op) {
  return CheckDelete(del, {}, context, op);
}

grpc::Status BatchTooLongError(std::string_view field, const Limits& limits) {
  return InvalidError(
      {}, field, "BATCH_TOO_LONG",
      fmt::format("more of them than max_batch_operations, {}", limits.max_batch_operations));
}

MaybeError ToWriteOps(std::span<const OperationFields> operations, const CheckContext& context,
                      std::vector<WriteOp>& ops, uint64_t& bytes) {
  if (operations.size() > context.limits.max_batch_operations) {
    return BatchTooLongError("operations", context.limits);
  }
  ops.resize(operations.size());
  DistinctKeys keys(ops.size());
  bytes = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    const Place place = OperationAt(i);
    MaybeError error = CheckOperation(operations[i], place, kBatchTakes, context, ops[i]);
    if (!error) error = keys.Add(operations[i].key, place);
    if (error) return error;
    bytes += BytesOf(ops[i]);
  }
  return CheckBatchBytes(bytes, "operations", context.limits);
}

MaybeError ToSessionOps(const SessionFields& message, const CheckContext& context,
                        std::vector<SessionOp>& ops, uint64_t& bytes) {
  const std::vector<OperationFields>& operations = message.entries;
  if (operations.size() > context.limits.max_batch_operations) {
    return BatchTooLongError("operations", context.limits);
  }
  ops.resize(operations.size());
  DistinctKeys keys(message.atomic ? ops.size() : 0);
  bytes = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    const Place place = OperationAt(i);
    ops[i].is_get = operations[i].kind == v1::OPERATION_KIND_GET;
    MaybeError error = CheckOperation(
        operations[i], place, message.atomic ? kAtomicTakes : kSessionTakes, context, ops[i].op);
    if (!error && message.atomic) error = keys.Add(operations[i].key, place);
    if (error) return error;
    bytes += BytesOf(ops[i].op);
  }
  return CheckBatchBytes(bytes, "operations", context.limits);
}

MaybeError CheckBatchGet(std::span<const std::string_view> keys, const CheckContext& context,
                         uint64_t& bytes) {
  if (keys.size() > context.limits.max_batch_operations) {
    return BatchTooLongError("keys", context.limits);
  }
  MaybeError error;
  bytes = 0;
  for (size_t i = 0; !error && i < keys.size(); ++i) {
    const Place place{.list = "keys", .index = static_cast<int>(i), .is_key = true};
    error = CheckKey(keys[i], place, context);
    bytes += keys[i].size();
  }
  if (!error) error = CheckBatchBytes(bytes, "keys", context.limits);
  return error;
}

}  // namespace lodgekv::server
