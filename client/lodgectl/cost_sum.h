// The cost on the medium of one command's calls, as the server reports it for each.
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

  // One line without its newline: the sum of the shares of all calls, and for a single call that
  // was part of a group, the group's cost.
  std::string Describe() const;

 private:
  mutable std::mutex mutex_;
  uint64_t calls_ = 0;
  v1::CostShare sum_;
  v1::Cost last_;
};

}  // namespace lodgekv::lodgectl
