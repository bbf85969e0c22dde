// The lock order that abseil checks in a build of its own without NDEBUG, as Debian's is.
#pragma once

namespace lodgekv {

// Turns the check off for this process; call it before the first thread is started. Every lock that
// is taken under another one goes through a graph of all mutexes, behind a spinlock of the process:
// gRPC does that for each call, and a pair of nested locks costs five times what it does without.
// What the graph finds ends the process, too, though a possible deadlock is not one. Tests that
// link the server's libraries keep the check.
void SkipLockOrderCheck();

}  // namespace lodgekv
