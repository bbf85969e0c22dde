#include "server/hardening.h"

#include <sys/prctl.h>
#include <sys/resource.h>

namespace lodgekv::server {

void ForbidCoreDumps() {
  // The limit alone does not suffice if the kernel passes cores to a program.
  constexpr rlimit kNone{.rlim_cur = 0, .rlim_max = 0};
  (void)setrlimit(RLIMIT_CORE, &kNone);
  (void)prctl(PR_SET_DUMPABLE, 0);
}

}  // namespace lodgekv::server
