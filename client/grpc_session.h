// A session: a stream of gRPC, and a thread that receives from it.
//
// INVARIANTS
// - Who holds send_mutex_ is the one that writes to the stream. The receiver alone reads from it,
//   takes its status and runs `done`.
// - A message is in unanswered_ from before it is written until its answer has been received, in
//   the order written. Once end_status_ is set none is added.
// - Nothing of the user's runs while mutex_ is held.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/conversions.h"
#include "client/lodgekv_client.h"
#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::client {

// A payload of the status of a session that did not end by the server's own reason, as by a message
// that is larger than gRPC takes: it says nothing of the messages that were sent before.
inline constexpr char kSessionBrokenUrl[] = "lodgekv/session_broken";

class GrpcSession final : public Session {
 public:
  GrpcSession(v1::KvService::Stub& stub, const SessionOptions& options, CostTaker on_cost);
  ~GrpcSession() override;
  GrpcSession(const GrpcSession&) = delete;
  GrpcSession& operator=(const GrpcSession&) = delete;

  absl::Status Send(const std::vector<SessionOp>& operations, const SendOptions& options,
                    SessionDone done) override;
  absl::Status Finish() override;

 private:
  struct Message {
    size_t operations;
    SessionDone done;
  };

  // Waits until there is room. Not OK: no more is sent.
  absl::Status Enqueue(Message message);
  bool HasRoomOrEnded() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  // What the receiver does from the beginning to the end.
  void Receive();
  // An error: the answer is none to the oldest message.
  absl::Status Deliver(v1::SessionResponse& response);
  void End(absl::Status status);

  const uint64_t most_unanswered_;
  const CostTaker on_cost_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionResponse>> stream_;

  absl::Mutex send_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  uint64_t last_sent_id_ ABSL_GUARDED_BY(send_mutex_) = 0;

  absl::Mutex mutex_;
  std::deque<Message> unanswered_ ABSL_GUARDED_BY(mutex_);
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_status_ ABSL_GUARDED_BY(mutex_);
  bool all_done_ ABSL_GUARDED_BY(mutex_) = false;

  uint64_t last_answered_id_ = 0;  // the receiver's
  std::thread receiver_;
};

}  // namespace lodgekv::client
