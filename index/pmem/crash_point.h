// A crash point names a step of a protocol; the numbers are those of the crash table in the
// engine's README. It does nothing unless a test listens. tests/crash fails for a point that no
// test hits.
#pragma once

#define LODGEKV_CRASH_POINT(medium, name) (medium).CrashPoint(name)
