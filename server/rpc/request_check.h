// Converts a request to an operation of the engine, or to the error that says what is wrong with
// it. No state: no store, no clock.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index/engine.h"
#include "index/key_format_name.h"
#include "lodgekv/v1/kv.pb.h"
#include "server/base/limits.h"
#include "server/rpc/batch_request.h"

namespace lodgekv::server {

// What the open pool supports.
struct PoolFeatures {
  KeyFormat key_format = KeyFormat::kBytes;
  bool inline_pairs = false;

  bool HasVersions() const { return key_format == KeyFormat::kBytes && !inline_pairs; }
  // As an operator configures it, for messages.
  std::string_view Name() const {
    return inline_pairs ? "bytes with inline_pairs" : KeyFormatName(key_format);
  }
};

struct CheckContext {
  const Limits& limits;
  PoolFeatures pool;
  uint64_t now_unix_ms = 0;
};

// An operation of a session. Of a get only the key counts.
struct SessionOp {
  bool is_get = false;
  WriteOp op;
};

// The size of its key and value; a delete has no value.
inline uint64_t BytesOf(const WriteOp& op) { return op.key.size() + op.value.size(); }

// The position of a field: in the request itself, in operations[3], or it is keys[3].
struct Place {
  std::string_view list = "";
  int index = -1;
  bool is_key = false;
};

// Nothing if the request is valid, else the error to answer with. `op` refers to the request, which
// must outlive it.
std::optional<grpc::Status> CheckKey(std::string_view key, const Place& place,
                                     const CheckContext& context);
std::optional<grpc::Status> ToPut(const OperationFields& put, const CheckContext& context,
                                  WriteOp& op);
std::optional<grpc::Status> ToDelete(const OperationFields& del, const CheckContext& context,
                                     WriteOp& op);

// Checks a whole batch: number of operations, bytes, each operation, no duplicate key. For a valid
// one `bytes` is the size of its keys and values.
std::optional<grpc::Status> ToWriteOps(std::span<const OperationFields> operations,
                                       const CheckContext& context, std::vector<WriteOp>& ops,
                                       uint64_t& bytes);
std::optional<grpc::Status> CheckBatchGet(std::span<const std::string_view> keys,
                                          const CheckContext& context, uint64_t& bytes);

// Checks a message of a session likewise; one that is not atomic may name a key more than once.
std::optional<grpc::Status> ToSessionOps(const SessionFields& message, const CheckContext& context,
                                         std::vector<SessionOp>& ops, uint64_t& bytes);

// The error for a batch with too many operations or keys, as `field` says.
grpc::Status BatchTooLongError(std::string_view field, const Limits& limits);

}  // namespace lodgekv::server
