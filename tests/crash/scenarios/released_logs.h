// A chunk of logs that is given back holds no log that recovery could find when the chunk serves
// logs again, whatever else it has served meanwhile. The explorer cannot show that in reasonable
// time: a wrong answer needs three uses of one chunk across two crashes, with a log's head left
// whole in between. So the rule itself is looked at.
#pragma once

#include <cstdint>

#include "tests/crash/lab/tracer.h"

namespace lodgekv::test {

struct ReleasedLogs {
  uint64_t images = 0;
  uint64_t with_free_chunk = 0;
  uint64_t with_old_logs = 0;  // of these: in which the free chunk still holds heads of logs
};

// Fills a chunk with logs, frees them and gives the chunk back; looks at every image of the way.
ReleasedLogs RunReleasedLogsScenario(CrashModel model, Fault fault);

}  // namespace lodgekv::test
