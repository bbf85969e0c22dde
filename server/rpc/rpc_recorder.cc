#include "server/rpc/rpc_recorder.h"

#include <algorithm>

#include "server/rpc/request_check.h"

namespace lodgekv::server {
namespace {

constexpr std::array<std::string_view, kCodeCount> kCodeNames{
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

size_t CodeIndex(grpc::StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kCodeCount ? index : static_cast<size_t>(grpc::StatusCode::UNKNOWN);
}

}  // namespace

std::string_view CodeName(grpc::StatusCode code) { return kCodeNames[CodeIndex(code)]; }

void RpcRecorder::Record(Method method, grpc::StatusCode code, uint64_t latency_ns) {
  LatencyCell& cell = cells_[static_cast<size_t>(method)][CodeIndex(code)];
  const auto* bound =
      std::lower_bound(kLatencyBoundsNs.begin(), kLatencyBoundsNs.end(), latency_ns);
  cell.buckets[static_cast<size_t>(bound - kLatencyBoundsNs.begin())].Add(1);
  cell.sum_ns.Add(latency_ns);
}

void RpcRecorder::RecordWrite(const WriteOp& op, const WriteResult& result) {
  const bool changed = op.kind == WriteKind::kPut || result.found;
  if (result.outcome != Outcome::kOk || !changed) return;
  write_operations_.Add(1);
  write_bytes_.Add(BytesOf(op));
}

}  // namespace lodgekv::server
