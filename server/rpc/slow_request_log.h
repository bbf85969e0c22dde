// The log lines about slow requests.
#pragma once

#include <cstdint>

#include "server/base/line_pace.h"
#include "server/rpc/call_host.h"

namespace lodgekv::server {

class SlowRequestLog {
 public:
  // Logs the call if it took at least so long; 0: never.
  void Note(const ServedCall& call, uint64_t slow_request_ms);

 private:
  // Limited, since clients cause them.
  static constexpr uint64_t kLinesPerSecond = 10;

  LinePace pace_{kLinesPerSecond};
};

}  // namespace lodgekv::server
