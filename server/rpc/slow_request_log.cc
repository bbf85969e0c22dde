#include "server/rpc/slow_request_log.h"

#include "server/base/log.h"

namespace lodgekv::server {

void SlowRequestLog::Note(const ServedCall& call, uint64_t slow_request_ms) {
  if (slow_request_ms == 0 || call.latency_ns < slow_request_ms * 1'000'000) return;
  uint64_t suppressed = 0;
  if (!pace_.Due(&suppressed)) return;
  Log(LogLevel::kWarning, "slow request",
      {{"rpc", kMethodNames[static_cast<size_t>(call.method)]},
       {"code", CodeName(call.code)},
       {"latency_us", call.latency_ns / 1000},
       {"held_bytes", call.held_bytes},
       {"lines_flushed", call.cost.lines_flushed},
       {"fences", call.cost.fences},
       {"media_writes_256b", call.cost.media_writes_256b},
       {"group_operations", call.group_operations},
       {"share_lines_flushed", call.share.lines_flushed},
       {"share_fences", call.share.fences},
       {"share_media_writes_256b", call.share.media_writes_256b},
       {"not_logged_before", suppressed}});
}

}  // namespace lodgekv::server
