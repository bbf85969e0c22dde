// The frames of connections that carry nothing of a request: settings, pings, windows, resets,
// priorities, farewells, kinds that nobody knows, and DATA and CONTINUATION of hardly a byte.
//
// gRPC processes each at once, a million and more a second, and its thread does not leave a socket
// whose client keeps up with it: one connection that sends nothing else keeps everybody waiting,
// and has no request that a limit could refuse. So their number is limited, of each connection.
// They are counted where gRPC takes the bytes of a connection apart, after TLS.
//
// INVARIANT  A client that means well stays far below: it sends a handful of them for each request
//            and each 16 KiB of an answer, and kPerRequest of them are not counted.
// Thread safety: any thread, each connection one at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "absl/container/flat_hash_map.h"

namespace lodgekv::server {

// Finds the frames in what a connection sends, in pieces as they come.
class FrameFinder {
 public:
  // What they add to the count: one for each control frame, less kPerRequest for each request.
  int64_t Find(std::span<const uint8_t> bytes);

  static constexpr int64_t kPerRequest = 4;

 private:
  static constexpr size_t kHeadBytes = 9;

  int64_t Weigh() const;
  uint32_t Length() const;

  bool begun_ = false;
  uint32_t to_skip_ = 0;  // of the last frame
  size_t have_ = 0;       // bytes of the next one's head
  std::array<uint8_t, kHeadBytes> head_{};
};

class ControlFrames {
 public:
  // At a microsecond each, a tenth of a thread.
  static constexpr int64_t kMostPerSecond = 100'000;

  using Time = std::chrono::steady_clock::time_point;
  using Clock = Time (*)();

  explicit ControlFrames(Clock clock = std::chrono::steady_clock::now) : clock_(clock) {}

  enum class Verdict {
    kFew,
    kTooMany,  // within a second; said once
    kEnded,    // there were too many before
  };
  // What has come on the connection.
  Verdict Add(const void* connection, std::span<const uint8_t> bytes);
  // The connection exists no longer.
  void Forget(const void* connection);

  size_t size();

 private:
  struct Counted {
    FrameFinder finder;
    int64_t count = 0;  // since `since`
    Time since{};
    bool ended = false;
  };
  // Of the connections whose addresses have one hash: reads of others seldom wait.
  struct alignas(64) Part {
    std::mutex mutex;
    absl::flat_hash_map<const void*, Counted> connections;
  };
  static constexpr size_t kParts = 32;

  Part& PartOf(const void* connection);

  const Clock clock_;
  std::array<Part, kParts> parts_;
};

}  // namespace lodgekv::server
