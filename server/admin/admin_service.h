// The operator's service, on a port of its own: one function per call. Quick calls are answered at
// once, on a thread of gRPC; those that read the whole structure run on a thread of their own, so
// that they delay neither health nor other calls, and many checks run one after the other.
#pragma once

#include "lodgekv/v1/admin.grpc.pb.h"
#include "server/admin/admin_worker.h"
#include "server/rpc/server_state.h"

namespace lodgekv::server {

class AdminService final : public v1::AdminService::CallbackService {
 public:
  explicit AdminService(const ServerState& state) : state_(state) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::StatusRequest* request,
                                   v1::StatusResponse* response) override;
  grpc::ServerUnaryReactor* Stats(grpc::CallbackServerContext* context,
                                  const v1::StatsRequest* request,
                                  v1::StatsResponse* response) override;
  grpc::ServerUnaryReactor* Engines(grpc::CallbackServerContext* context,
                                    const v1::EnginesRequest* request,
                                    v1::EnginesResponse* response) override;
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const v1::CheckRequest* request,
                                  v1::CheckResponse* response) override;

  // Not served yet.
  grpc::ServerWriteReactor<v1::BackupResponse>* Backup(grpc::CallbackServerContext* context,
                                                       const v1::BackupRequest* request) override;
  grpc::ServerUnaryReactor* DeleteRange(grpc::CallbackServerContext* context,
                                        const v1::DeleteRangeRequest* request,
                                        v1::DeleteRangeResponse* response) override;
  grpc::ServerUnaryReactor* Checksum(grpc::CallbackServerContext* context,
                                     const v1::ChecksumRequest* request,
                                     v1::ChecksumResponse* response) override;
  grpc::ServerUnaryReactor* ApplyBatch(grpc::CallbackServerContext* context,
                                       const v1::ApplyBatchRequest* request,
                                       v1::ApplyBatchResponse* response) override;

 private:
  // Of calls that count the keys.
  static constexpr size_t kMaxStatsWaiting = 16;

  grpc::Status FillStats(const v1::StatsRequest& request, v1::StatsResponse* response) const;
  grpc::Status RunCheck(const grpc::CallbackServerContext& context,
                        v1::CheckResponse* response) const;

  const ServerState& state_;
  AdminWorker stats_{kMaxStatsWaiting};
  // One runs, and one more may be queued: a client that has just got an answer may ask again at
  // once.
  AdminWorker check_{1};
};

}  // namespace lodgekv::server
