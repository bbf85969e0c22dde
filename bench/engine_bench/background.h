// What an engine leaves to its background thread.
#pragma once

#include "bench/engine_bench/target.h"

namespace lodgekv::bench {

// Whether a task of it is queued, to begin at once, or running.
bool BackgroundWorks(const Target& target);
// Returns when it does not: its lines are then counted with the operations
// that caused them, and it does not take part in those to come. Nobody writes meanwhile.
void AwaitBackground(const Target& target);

}  // namespace lodgekv::bench
