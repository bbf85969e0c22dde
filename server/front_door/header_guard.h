// Holds gRPC to the limits of header_blocks.h.
//
// gRPC 1.51 has no option for this, and Debian 12 has no later version; 1.57 needs no guard, and
// gets none. The transport calls its parser of headers through the dynamic linker, so our own
// functions of the same names are called in its stead, and pass on what they let through
// (docs/decisions/0048-headers-are-guarded.md). Whoever links this file has them.
#pragma once

#include <cstdint>

namespace lodgekv::server {

// Blocks of headers larger than they may be, of any port, since the process began.
uint64_t TooLargeHeaderBlocks();

}  // namespace lodgekv::server
