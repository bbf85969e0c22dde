// Limits on what the process, and others of its user, may do with its memory.
#pragma once

namespace lodgekv::server {

// No core file, even if a program collects them, and no access to our memory for other processes of
// our user: it holds keys, values and the private key of TLS.
void ForbidCoreDumps();

}  // namespace lodgekv::server
