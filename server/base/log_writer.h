// Writes lines to a descriptor (stderr) from a thread of its own, so that a thread that logs never
// waits for the reader.
//
// INVARIANTS
// - Write never waits for the descriptor. If the reader is too slow, the oldest queued lines are
//   dropped; a line in their place reports how many.
// - The queue is bounded in lines and in bytes.
// - The process may end at any time, even while the thread is blocked in a write.
#pragma once

#include <spdlog/async.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lodgekv::server {

class LogWriter {
 public:
  // `describe` makes the line that reports dropped lines.
  LogWriter(int fd, std::function<std::string(uint64_t dropped)> describe);

  // The line without a line end.
  void Write(std::string line);

  // Returns when everything written so far has been written to the descriptor, or after `patience`.
  void Flush(std::chrono::milliseconds patience);

  uint64_t dropped() const;

 private:
  class Sink;

  std::shared_ptr<Sink> sink_;
  // Its destructor waits for the thread, so a writer whose reader may have stopped is never
  // destroyed.
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::async_logger> logger_;
  std::atomic<uint64_t> written_{0};
};

}  // namespace lodgekv::server
