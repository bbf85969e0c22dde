// Requests as views of their bytes: what protobuf would parse (kv.proto), without a copy and an
// allocation for each operation. A field that occurs twice counts as with protobuf: the
// later one, and of a ttl each of its fields. Unknown fields are skipped. Tags and lengths that
// are written in more bytes than protobuf takes are read all the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lodgekv/v1/kv.pb.h"

namespace lodgekv::server {

// google.protobuf.Duration.
struct TtlFields {
  int64_t seconds = 0;
  int32_t nanos = 0;
};

// The fields of an operation, unchecked.
struct OperationFields {
  v1::OperationKind kind = v1::OPERATION_KIND_UNSPECIFIED;
  v1::Condition condition = v1::CONDITION_UNSPECIFIED;
  std::string_view key = {};
  std::string_view value = {};
  uint64_t if_version = 0;
  std::optional<TtlFields> ttl = {};
};

// A request about one key; a field that its message does not have is left as it is here.
struct PointFields {
  OperationFields op;
  bool want_cost = false;
};

struct BatchWriteFields {
  std::vector<OperationFields> entries;
  bool want_cost = false;
};

struct BatchGetFields {
  std::vector<std::string_view> entries;
  bool want_cost = false;
};

// A message of a session.
struct SessionFields {
  std::vector<OperationFields> entries;
  bool want_cost = false;
  bool atomic = false;
  uint64_t id = 0;
};

// Parse a whole message; `bytes` must outlive what is parsed, which must be empty. False: the bytes
// are no message, and what was parsed is unspecified.
bool ParseGet(std::string_view bytes, PointFields* request);
bool ParsePut(std::string_view bytes, PointFields* request);
bool ParseDelete(std::string_view bytes, PointFields* request);

// Parses a whole message; `bytes` must outlive what is parsed, which must be empty and takes memory
// for `entries` at once. False: the bytes are no message, and what was parsed is unspecified.
bool ParseBatch(std::string_view bytes, uint64_t entries, BatchWriteFields* batch);
bool ParseBatch(std::string_view bytes, uint64_t entries, BatchGetFields* batch);
bool ParseBatch(std::string_view bytes, uint64_t entries, SessionFields* message);

}  // namespace lodgekv::server
