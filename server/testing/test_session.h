// A client's session with a daemon of the test.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lodgekv/v1/kv.grpc.pb.h"
#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {

inline v1::Operation* AddOperation(v1::SessionRequest& request, v1::OperationKind kind,
                                   const std::string& key, const std::string& value = "") {
  v1::Operation* operation = request.add_operations();
  operation->set_kind(kind);
  operation->set_key(key);
  operation->set_value(value);
  return operation;
}

inline v1::SessionRequest OneOperation(uint64_t id, v1::OperationKind kind, const std::string& key,
                                       const std::string& value = "") {
  v1::SessionRequest request;
  request.set_id(id);
  AddOperation(request, kind, key, value);
  return request;
}

class TestSession {
 public:
  explicit TestSession(TestDaemon& daemon,
                       std::chrono::seconds deadline = std::chrono::seconds(30)) {
    SetDeadline(context_, deadline);
    stream_ = daemon.kv().Session(&context_);
  }

  // False: the session has ended.
  bool Send(const v1::SessionRequest& request) { return stream_->Write(request); }
  // Nothing: the session has ended.
  std::optional<v1::SessionResponse> Receive() {
    v1::SessionResponse response;
    if (!stream_->Read(&response)) return std::nullopt;
    return response;
  }
  // Sends one, and waits for its answer, which is empty if the session has ended.
  v1::SessionResponse Ask(const v1::SessionRequest& request) {
    Send(request);
    return Receive().value_or(v1::SessionResponse());
  }
  void SendNoMore() { stream_->WritesDone(); }
  // The status of the session, once all answers have been received.
  grpc::Status End() {
    SendNoMore();
    return AwaitEnd();
  }
  grpc::Status AwaitEnd() { return stream_->Finish(); }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionResponse>> stream_;
};

}  // namespace lodgekv::server::testing
