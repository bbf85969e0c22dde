// The operator's service, on a port of its own: one function per call. Seldom used, so it takes
// gRPC's own threads.
#pragma once

#include "lodgekv/v1/admin.grpc.pb.h"
#include "server/server_state.h"

namespace lodgekv::server {

class AdminService final : public v1::AdminService::Service {
 public:
  explicit AdminService(const ServerState& state) : state_(state) {}

  grpc::Status Status(grpc::ServerContext* context, const v1::StatusRequest* request,
                      v1::StatusResponse* response) override;
  grpc::Status Stats(grpc::ServerContext* context, const v1::StatsRequest* request,
                     v1::StatsResponse* response) override;
  grpc::Status Engines(grpc::ServerContext* context, const v1::EnginesRequest* request,
                       v1::EnginesResponse* response) override;
  grpc::Status Check(grpc::ServerContext* context, const v1::CheckRequest* request,
                     v1::CheckResponse* response) override;

  // Not served yet.
  grpc::Status Backup(grpc::ServerContext* context, const v1::BackupRequest* request,
                      grpc::ServerWriter<v1::BackupResponse>* writer) override;
  grpc::Status DeleteRange(grpc::ServerContext* context, const v1::DeleteRangeRequest* request,
                           v1::DeleteRangeResponse* response) override;
  grpc::Status Checksum(grpc::ServerContext* context, const v1::ChecksumRequest* request,
                        v1::ChecksumResponse* response) override;
  grpc::Status ApplyBatch(grpc::ServerContext* context, const v1::ApplyBatchRequest* request,
                          v1::ApplyBatchResponse* response) override;

 private:
  const ServerState& state_;
};

}  // namespace lodgekv::server
