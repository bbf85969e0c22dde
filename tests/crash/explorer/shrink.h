// Makes the script of a failure as short as it can within a budget: lives, steps, operations and
// values are left out as long as something still fails.
#pragma once

#include <string>

#include "tests/crash/explorer/explorer.h"
#include "tests/crash/lab/script.h"

namespace lodgekv::test {

struct Shrunk {
  std::string text;    // what is left, what fails, and the lines that are lost: for a person
  std::string script;  // for LODGEKV_CRASH_SCRIPT; empty: it does not fail by itself
};

Shrunk Shrink(const ExplorerOptions& options, const Script& script);

}  // namespace lodgekv::test
