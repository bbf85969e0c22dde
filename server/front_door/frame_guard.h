// Holds gRPC to the limit of control_frames.h.
//
// gRPC 1.51 has no limit of its own but for pings. Where it takes apart what was read of a
// connection, and where that ends, it calls two functions through the dynamic linker; ours of the
// same names are called in their stead, and call them (docs/decisions/0049-frames-are-counted.md).
// Whoever links this file has them.
#pragma once

#include <string>
#include <vector>

namespace lodgekv::server {

// The connections, as gRPC names them, that have sent too many control frames since the last call.
// gRPC ends them.
std::vector<std::string> TakeFloodingConnections();

}  // namespace lodgekv::server
