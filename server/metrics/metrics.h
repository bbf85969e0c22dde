// The metrics of the Prometheus endpoint. Collected at each scrape from counters that the serving
// threads maintain: serving takes no lock for them.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "server/front_door/front_door.h"
#include "server/rpc/rpc_recorder.h"
#include "server/rpc/server_state.h"
#include "server/tls/tls_watcher.h"

namespace lodgekv::server {

class Metrics final : public prometheus::Collectable {
 public:
  // The recorders of all polling threads; they, the state, the door and `tls` must outlive this.
  // All ports of the door must be open. tls may be null.
  Metrics(const ServerState& state, const FrontDoor& door,
          std::vector<const RpcRecorder*> recorders, const TlsWatcher* tls)
      : state_(state), door_(door), recorders_(std::move(recorders)), tls_(tls) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const ServerState& state_;
  const FrontDoor& door_;
  const std::vector<const RpcRecorder*> recorders_;
  const TlsWatcher* const tls_;
};

}  // namespace lodgekv::server
