// The data service as gRPC sees it: which calls are served on completion queues, and which are not
// served yet. Batches are received as bytes, so that they can be checked before they are parsed; of
// scans the pages are bytes, made by the thread that reads them.
#pragma once

#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::server {

namespace internal {
template <class Base>
using AsyncWrites = v1::KvService::WithAsyncMethod_Put<
    v1::KvService::WithAsyncMethod_Delete<v1::KvService::WithRawMethod_BatchWrite<Base>>>;
template <class Base>
using AsyncReads = v1::KvService::WithAsyncMethod_Get<
    v1::KvService::WithRawMethod_BatchGet<v1::KvService::WithRawMethod_Scan<Base>>>;
}  // namespace internal

class KvService final : public internal::AsyncReads<internal::AsyncWrites<v1::KvService::Service>> {
 public:
  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>* stream) override;
};

}  // namespace lodgekv::server
