// Writes lines to a descriptor, stderr, from a thread of its own, so that whoever logs never waits
// for whoever reads.
//
// INVARIANTS
// - Write never waits for the descriptor. Where a reader is too slow the oldest lines that wait are
//   dropped; a line in their place says how many.
// - What waits is bounded, in lines and in bytes.
// - The process may end at any time, with the thread inside a write that never does.
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
  // `describe` makes the line about lines that were dropped.
  LogWriter(int fd, std::function<std::string(uint64_t dropped)> describe);

  // The line without its end.
  void Write(std::string line);

  // Until everything that was written before is with the reader, or `patience` is over.
  void Flush(std::chrono::milliseconds patience);

  uint64_t dropped() const;

 private:
  class Sink;

  std::shared_ptr<Sink> sink_;
  // Its end waits for the thread: a writer whose reader may have stopped is never destroyed.
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::async_logger> logger_;
  std::atomic<uint64_t> written_{0};
};

}  // namespace lodgekv::server
