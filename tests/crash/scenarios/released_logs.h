// A freed chunk of logs holds no log that recovery could find when the chunk is used for logs
// again, whatever it was used for meanwhile. The explorer cannot show that in reasonable time: a
// wrong answer needs three uses of one chunk across two crashes, with an intact log head left in
// between. So the rule itself is tested.
#pragma once

#include <cstdint>

#include "tests/crash/lab/tracer.h"

namespace lodgekv::test {

struct ReleasedLogs {
  uint64_t images = 0;
  uint64_t with_free_chunk = 0;
  uint64_t with_old_logs = 0;  // of these: the free chunk still holds heads of logs
};

// Fills a chunk with logs, frees them and then the chunk; checks every image on the way.
ReleasedLogs RunReleasedLogsScenario(CrashModel model, Fault fault);

}  // namespace lodgekv::test
