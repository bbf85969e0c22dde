#include "server/rpc/kv_service.h"

#include "server/rpc/errors.h"

namespace lodgekv::server {

grpc::Status KvService::Session(
    grpc::ServerContext*, grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>*) {
  return NotServedError("lodgekv.v1.KvService.Session");
}

}  // namespace lodgekv::server
