// The data service as gRPC sees it, all of it served on completion queues. Requests and answers are
// bytes: so batches can be checked before they are parsed, nothing is built that is then copied,
// and what is large is parsed and made by the thread that has the time.
#pragma once

#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::server {

namespace internal {
template <class Base>
using RawWrites = v1::KvService::WithRawMethod_Put<
    v1::KvService::WithRawMethod_Delete<v1::KvService::WithRawMethod_BatchWrite<Base>>>;
template <class Base>
using RawReads = v1::KvService::WithRawMethod_Get<
    v1::KvService::WithRawMethod_BatchGet<v1::KvService::WithRawMethod_Scan<Base>>>;
}  // namespace internal

using KvService = v1::KvService::WithRawMethod_Session<
    internal::RawReads<internal::RawWrites<v1::KvService::Service>>>;

}  // namespace lodgekv::server
