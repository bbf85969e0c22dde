// The call Scan: a stream of pages. The next page is read when the previous one has been delivered,
// so that a scan holds one page, whatever its range. The first page is refused if the admission has
// no room for it; a later one waits for room.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <optional>

#include "lodgekv/v1/kv.pb.h"
#include "server/rpc/call_kinds.h"
#include "server/rpc/scan_pager.h"

namespace lodgekv::server {

class ScanCall final : public PageCall {
 public:
  explicit ScanCall(CallHost& host) : PageCall(host, Method::kScan) {}

  void Listen(KvService& service, grpc::ServerCompletionQueue* queue) override;
  void OnEvent(bool ok) override;
  void Answer(const grpc::Status& status) override;

  bool IsFirstPage() const override { return state_ == State::kFirstPage; }
  bool IsShort() const override;
  bool ReadPage(Engine& engine, uint64_t now_unix_ms, bool stopping) override;

 private:
  enum class State { kListening, kFirstPage, kLaterPage, kFinishing };

  void Accept();
  void MakePage(Engine& engine, uint64_t now_unix_ms);
  void DeliverResult() override;
  void SendPage();
  void FreeResources() override;

  State state_ = State::kListening;
  bool want_cost_ = false;
  grpc::ByteBuffer wire_;  // the request's
  v1::ScanRequest request_;
  std::optional<ScanPager> pager_;
  Admission::Held page_held_;
  grpc::ByteBuffer page_;  // made, and not yet sent
  std::optional<grpc::ServerAsyncWriter<grpc::ByteBuffer>> writer_;
};

}  // namespace lodgekv::server
