// What the Prometheus endpoint shows. Gathered when it is asked for, from counters that the serving
// threads keep for themselves: serving pays for no lock.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "server/rpc_recorder.h"
#include "server/server_state.h"

namespace lodgekv::server {

class Metrics final : public prometheus::Collectable {
 public:
  // The recorders of all polling threads; they and the state outlive this.
  Metrics(const ServerState& state, std::vector<const RpcRecorder*> recorders)
      : state_(state), recorders_(std::move(recorders)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const ServerState& state_;
  const std::vector<const RpcRecorder*> recorders_;
};

}  // namespace lodgekv::server
