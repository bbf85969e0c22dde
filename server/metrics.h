// What the Prometheus endpoint shows. Gathered when it is asked for, from counters that the serving
// threads keep for themselves: serving pays for no lock.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "server/rpc_recorder.h"
#include "server/server_state.h"
#include "server/tls_watcher.h"

namespace lodgekv::server {

class Metrics final : public prometheus::Collectable {
 public:
  // The recorders of all polling threads; they, the state and `tls` outlive this. tls may be null.
  Metrics(const ServerState& state, std::vector<const RpcRecorder*> recorders,
          const TlsWatcher* tls)
      : state_(state), recorders_(std::move(recorders)), tls_(tls) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const ServerState& state_;
  const std::vector<const RpcRecorder*> recorders_;
  const TlsWatcher* const tls_;
};

}  // namespace lodgekv::server
