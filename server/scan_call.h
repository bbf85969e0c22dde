// The call Scan: a stream of pages. The next page is read when the client has taken the one before,
// so that a scan holds one page, whatever its range. The first page is refused when there is no
// room for it; a later one waits until there is.
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

  bool IsFirstPage() const { return state_ == State::kFirstPage; }

  // When its turn has come. False: there is no room for a page, so that it waits for another turn.
  bool ServePage();

 private:
  enum class State { kListening, kFirstPage, kLaterPage, kFinishing };

  void Accept();
  std::optional<grpc::Status> ReadPage(v1::ScanResponse& page);
  void SendPage(const v1::ScanResponse& page);
  void LetGo() override;

  State state_ = State::kListening;
  bool want_cost_ = false;
  v1::ScanRequest request_;
  std::optional<ScanPager> pager_;
  Admission::Held page_held_;
  std::optional<grpc::ServerAsyncWriter<v1::ScanResponse>> writer_;
};

}  // namespace lodgekv::server
