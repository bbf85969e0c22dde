// A crash point names a step of a protocol; its number is the one in the crash table of the
// engine's README. It has no effect outside of tests. tests/crash fails for a point that no test
// hits.
#pragma once

#define LODGEKV_CRASH_POINT(medium, name) (medium).CrashPoint(name)
