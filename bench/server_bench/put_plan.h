// What a run of puts is to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lodgekv::server_bench {

enum class Protocol : uint8_t { kLodgekv, kEtcd, kRedis };

// One phase: a fixed number of puts in flight, for a time or a count.
struct PutPlan {
  Protocol protocol = Protocol::kLodgekv;
  std::string server;  // host:port, on this machine
  unsigned in_flight = 1;
  unsigned connections = 1;  // which share the puts in flight
  unsigned threads = 1;      // which share the connections
  std::chrono::milliseconds warm_up{0};
  std::chrono::milliseconds time{5'000};
  uint64_t most_puts = 0;  // 0: as many as the time allows
  uint64_t key_space = 1'000'000;
  uint64_t seed = 1;
  bool keep_samples = false;
};

// The part of one thread.
struct PutShare {
  unsigned in_flight = 1;
  unsigned connections = 1;
  uint64_t seed = 1;
};

// As evenly as it goes; no thread is without a put in flight, no connection either.
std::vector<PutShare> SharesOf(const PutPlan& plan);

}  // namespace lodgekv::server_bench
