// The call Scan: a stream of pages. The next page is read when the client has taken the one before,
// so that a scan holds one page, whatever its range.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <optional>

#include "lodgekv/v1/kv.pb.h"
#include "server/call.h"
#include "server/scan_pager.h"

namespace lodgekv::server {

class ScanCall final : public Call {
 public:
  explicit ScanCall(Poller& poller) : Call(poller, Method::kScan) {}

  void Listen() override;
  void OnEvent(bool ok) override;
  void Answer(const grpc::Status& status) override;

 private:
  enum class State { kListening, kWritingPage, kFinishing };

  void Accept();
  void SendPage();

  State state_ = State::kListening;
  v1::ScanRequest request_;
  v1::ScanResponse page_;
  ScanPager pager_;
  uint64_t page_bytes_held_ = 0;
  std::optional<grpc::ServerAsyncWriter<v1::ScanResponse>> writer_;
};

}  // namespace lodgekv::server
