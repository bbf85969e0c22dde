// The data service as gRPC sees it, all of it served on completion queues. Batches, and the
// messages of sessions, are received as bytes, so that they can be checked before they are parsed;
// the answers of sessions and the pages of scans are bytes, made by the thread that reads them.
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

using KvService = v1::KvService::WithRawMethod_Session<
    internal::AsyncReads<internal::AsyncWrites<v1::KvService::Service>>>;

}  // namespace lodgekv::server
