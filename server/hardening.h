// What the process denies itself and others.
#pragma once

namespace lodgekv::server {

// No core file, whatever collects them, and no look into our memory by other processes of our user:
// it holds keys, values and the private key of TLS.
void ForbidCoreDumps();

}  // namespace lodgekv::server
