// Reduces the script of a failure as far as possible within a budget: runs, steps, operations and
// values are removed as long as something still fails.
#pragma once

#include <string>

#include "tests/crash/explorer/explorer.h"
#include "tests/crash/lab/script.h"

namespace lodgekv::test {

struct Shrunk {
  std::string text;    // human-readable: what is left, what fails, and the lost lines
  std::string script;  // for LODGEKV_CRASH_SCRIPT; empty if it does not fail by itself
};

Shrunk Shrink(const ExplorerOptions& options, const Script& script);

}  // namespace lodgekv::test
