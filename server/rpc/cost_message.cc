#include "server/rpc/cost_message.h"

#include "lodgekv/v1/kv.pb.h"

namespace lodgekv::server {

std::string CostBytes(const Cost& cost, uint64_t operations, const Cost& share) {
  v1::Cost message;
  message.set_lines_flushed(cost.lines_flushed);
  message.set_fences(cost.fences);
  message.set_media_writes_256b(cost.media_writes_256b);
  message.set_bytes_stored(cost.bytes_stored);
  message.set_group_operations(operations);
  v1::CostShare& own = *message.mutable_share();
  own.set_lines_flushed(share.lines_flushed);
  own.set_fences(share.fences);
  own.set_media_writes_256b(share.media_writes_256b);
  own.set_bytes_stored(share.bytes_stored);
  return message.SerializeAsString();
}

}  // namespace lodgekv::server
