// Runs work in a process of its own: a faulty engine may also die or hang.
#pragma once

#include <functional>
#include <string>

namespace lodgekv::test {

struct IsolatedResult {
  std::string report;  // what the work returned
  std::string death;   // how the process ended, if the work did not return
};

// Not thread-safe; the calling process has one thread.
IsolatedResult RunIsolated(unsigned limit_seconds, const std::function<std::string()>& work);

}  // namespace lodgekv::test
