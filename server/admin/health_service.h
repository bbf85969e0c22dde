// grpc.health.v1, served from HealthState. It replaces the library's service, which has no
// descriptor for reflection and no limit on the streams of Watch. No thread blocks in it.
#pragma once

#include <grpcpp/grpcpp.h>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/admin/health_state.h"

namespace lodgekv::server {

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  // `state` must outlive the server at which this is registered.
  explicit HealthService(HealthState& state) : state_(state) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;

  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  HealthState& state_;
};

}  // namespace lodgekv::server
