// The next page of a scan as the message that a client sees.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>

#include <cstdint>
#include <optional>

#include "lodgekv/v1/kv.pb.h"
#include "server/rpc/page_writer.h"
#include "server/rpc/scan_pager.h"

namespace lodgekv::server::testing {

// Nothing: the engine's outcome is not kOk, or the bytes are no message.
inline std::optional<v1::ScanResponse> NextPage(ScanPager& pager, Engine& engine,
                                                uint64_t most_bytes = UINT64_MAX) {
  PageWriter writer;
  if (pager.NextPage(engine, 0, most_bytes, writer) != Outcome::kOk) return std::nullopt;
  grpc::ByteBuffer wire = writer.Take();
  v1::ScanResponse page;
  if (!grpc::SerializationTraits<v1::ScanResponse>::Deserialize(&wire, &page).ok()) {
    return std::nullopt;
  }
  return page;
}

}  // namespace lodgekv::server::testing
