// Work in a process of its own: an engine with a mistake in it may also die or hang.
#pragma once

#include <functional>
#include <string>

namespace lodgekv::test {

struct IsolatedResult {
  std::string report;  // what the work returned
  std::string death;   // how the process ended, when it did not return
};

// Not thread-safe; the calling process has one thread.
IsolatedResult RunIsolated(unsigned limit_seconds, const std::function<std::string()>& work);

}  // namespace lodgekv::test
