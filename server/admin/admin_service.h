// The operator's service, on a port of its own: one function per call. Quick calls are answered at
// once, on the poller's thread; those that read the whole structure run on threads of their own, so
// that they delay no other call, and many checks run one after the other.
#pragma once

#include <functional>

#include "lodgekv/v1/admin.grpc.pb.h"
#include "server/admin/admin_worker.h"
#include "server/base/event.h"
#include "server/rpc/server_state.h"

namespace lodgekv::server {

class AdminService final : public v1::AdminService::AsyncService, public QueuedService {
 public:
  explicit AdminService(const ServerState& state) : state_(state) {}

  void Receive(grpc::ServerCompletionQueue& queue) override;
  // Waits until the calls that run on threads of its own are answered; those that nobody waits for
  // any more end soon. After the server has shut down, and before the queues that it answers on do.
  void Stop() {
    stats_.Stop();
    check_.Stop();
  }

 private:
  // Of calls that count the keys.
  static constexpr size_t kMaxStatsWaiting = 16;

  void ReceiveUnserved(grpc::ServerCompletionQueue& queue);
  void FillStatus(v1::StatusResponse* response) const;
  grpc::Status FillStats(const v1::StatsRequest& request, v1::StatsResponse* response) const;
  void FillEngines(v1::EnginesResponse* response) const;
  // cancelled: asked from time to time.
  grpc::Status RunCheck(const std::function<bool()>& cancelled, v1::CheckResponse* response) const;

  const ServerState& state_;
  AdminWorker stats_{kMaxStatsWaiting};
  // One runs, and one more may be queued: a client that has just got an answer may ask again at
  // once.
  AdminWorker check_{1};
};

}  // namespace lodgekv::server
