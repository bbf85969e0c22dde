// The phases of the daemon: listen, create or recover, serve, drain, close cleanly.
//
// INVARIANT  The pool is not touched before every port is bound. The store is closed when no
//            service, poller or metrics endpoint runs any more, exactly once.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/store.h"
#include "server/admin/admin_service.h"
#include "server/admin/health_service.h"
#include "server/admin/health_state.h"
#include "server/admin/unknown_calls.h"
#include "server/base/clock.h"
#include "server/base/shared_queue.h"
#include "server/config/config.h"
#include "server/front_door/front_door.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_http.h"
#include "server/rpc/kv_service.h"
#include "server/rpc/poller.h"
#include "server/rpc/server_state.h"
#include "server/rpc/work_threads.h"
#include "server/tls/tls_watcher.h"

namespace lodgekv::server {

// Replaced by tests.
struct DaemonHooks {
  const Clock* clock = nullptr;  // null: the system's
  std::function<absl::StatusOr<std::unique_ptr<Store>>(const StoreOptions&)> open_store =
      &Store::Open;
  // Called when a sync has failed. Must end the process.
  std::function<void(const std::string& what)> on_medium_failure;
};

class Daemon {
 public:
  explicit Daemon(const Config& config, DaemonHooks hooks = {});
  ~Daemon();

  // Reads the TLS files and binds all ports. From here on clients get answers: UNAVAILABLE, until
  // OpenStore is done.
  absl::Status Listen();

  // Creates or recovers the pool and begins to serve.
  absl::Status OpenStore();

  // Reads the configuration again and applies the changes that need no restart; the log reports
  // what changed and what needs a restart. An invalid configuration changes nothing: the log says
  // why. Also checks the TLS files. Only by one thread at a time.
  void Reload(const ConfigSources& sources);

  // Reports NOT_SERVING for drain_delay, then accepts no more calls and gives those in flight
  // drain_grace to finish, then closes the pool. Without effect the second time. Returns DataLoss
  // if a file of the pool was lost in operation (state().pool_gone()): the process must then end
  // without running destructors.
  absl::Status Stop();

  // The bound addresses, with the chosen port if the configuration has port 0.
  const std::string& data_address() const { return data_address_; }
  const std::string& admin_address() const { return admin_address_; }
  const std::string& metrics_address() const { return metrics_address_; }
  const std::string& health_address() const { return health_address_; }

  const ServerState& state() const { return state_; }

 private:
  // A port of gRPC: the configuration field that names it, and the options for its connections.
  struct GrpcPort {
    std::string_view field;
    const std::string& address;
    PortOptions options;
    std::shared_ptr<grpc::ServerCredentials> credentials;
  };

  FrontDoor::Hooks DoorHooks();
  PortOptions DataPort() const;
  PortOptions SmallPort(std::string name, bool tls, uint64_t streams_per_connection) const;
  absl::StatusOr<std::unique_ptr<grpc::Server>> StartServer(grpc::ServerBuilder& builder,
                                                            GrpcPort port, std::string* bound);
  // Starts a server whose calls arrive on the first poller's queue.
  absl::StatusOr<std::unique_ptr<grpc::Server>> StartSmallServer(grpc::ServerBuilder& builder,
                                                                 GrpcPort port, std::string* bound);
  absl::Status ListenData();
  absl::Status ListenAdmin();
  absl::Status ListenMetrics();
  absl::Status ListenHealth();
  absl::Status StartTls();
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;
  std::string_view Transport() const;
  void SetReachable(bool reachable);
  void OnPoolGone(const std::string& what);
  void AwaitInFlight();
  void StopServers();
  StoreOptions MakeStoreOptions();

  const SystemClock system_clock_;
  const DaemonHooks hooks_;
  ServerState state_;
  KvService kv_service_;
  AdminService admin_service_;
  HealthState health_;
  HealthService data_health_{health_};
  HealthService admin_health_{health_};
  HealthService probe_health_{health_};
  UnknownCalls admin_unknown_;
  UnknownCalls probe_unknown_;
  std::unique_ptr<TlsWatcher> tls_;  // null: plaintext
  std::unique_ptr<WorkThreads> long_reads_;
  std::unique_ptr<WorkThreads> long_writes_;
  std::vector<std::unique_ptr<Poller>> pollers_;
  std::vector<std::unique_ptr<UnusedQueue>> unused_queues_;
  std::unique_ptr<grpc::Server> data_server_;
  std::unique_ptr<grpc::Server> admin_server_;
  std::unique_ptr<grpc::Server> health_server_;
  // Hands connections over to these servers; stopped before they are.
  FrontDoor door_;
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<MetricsHttp> metrics_http_;
  std::unique_ptr<Store> store_;
  std::string data_address_;
  std::string admin_address_;
  std::string metrics_address_;
  std::string health_address_;
};

}  // namespace lodgekv::server
