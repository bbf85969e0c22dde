// grpc.health.v1, served from HealthState on a poller's queue. It replaces the library's service,
// which has no descriptor for reflection and no limit on the streams of Watch. No thread blocks in
// it. Each port has an object of its own.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/admin/health_state.h"
#include "server/base/event.h"

namespace lodgekv::server {

class HealthService final : public grpc::health::v1::Health::AsyncService, public QueuedService {
 public:
  // `state` must outlive the server at which this is registered.
  explicit HealthService(HealthState& state) : state_(state), port_(state.AddPort()) {}

  void Receive(grpc::ServerCompletionQueue& queue) override;

  HealthState& state() { return state_; }
  size_t port() const { return port_; }

 private:
  HealthState& state_;
  const size_t port_;
};

}  // namespace lodgekv::server
