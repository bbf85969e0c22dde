// What the calls of one command cost the medium, by what the server answered to each.
//
// INVARIANT  Thread-safe: answers come on threads of gRPC.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "lodgekv/v1/kv.pb.h"

namespace lodgekv::lodgectl {

class CostSum {
 public:
  void Add(const v1::Cost& cost);

  // One line without its end: the shares of all calls added up, and of a single call that was one
  // of a group, what the group cost.
  std::string Describe() const;

 private:
  mutable std::mutex mutex_;
  uint64_t calls_ = 0;
  v1::CostShare sum_;
  v1::Cost last_;
};

}  // namespace lodgekv::lodgectl
