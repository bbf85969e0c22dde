// The plan of a run of puts.
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
  unsigned connections = 1;  // they share the puts in flight
  unsigned threads = 1;      // they share the connections
  std::chrono::milliseconds warm_up{0};
  std::chrono::milliseconds time{5'000};
  uint64_t most_puts = 0;  // 0: limited by time only
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

// As even as possible; no thread or connection is without a put in flight.
std::vector<PutShare> SharesOf(const PutPlan& plan);

}  // namespace lodgekv::server_bench
