// Divides the media cost of a group among its operations.
//
// A group is one call of the engine: a line with words of two operations is flushed once, and one
// fence is for all, so the cost of each operation by itself is not known. Lines, media writes and
// bytes are divided by weight, fences evenly, in whole numbers.
//
// INVARIANT  The shares of a group add up to its cost exactly.
#pragma once

#include <cstdint>

#include "index/cost.h"

namespace lodgekv::server {

// The weight of an operation, besides the bytes that it writes (CostShare in kv.proto).
inline constexpr uint64_t kOperationWeight = 64;

class CostShares {
 public:
  // `weight` is the sum for all operations. Neither may be 0.
  CostShares(const Cost& total, uint64_t operations, uint64_t weight)
      : total_(total), operations_(operations), weight_(weight) {}

  // The share of the next operation, or of several that belong together.
  Cost Next(uint64_t weight, uint64_t operations = 1) {
    const uint64_t weight_before = weight_given_;
    const uint64_t operations_before = operations_given_;
    weight_given_ += weight;
    operations_given_ += operations;
    const auto by_weight = [&](uint64_t whole) {
      return UpTo(whole, weight_given_, weight_) - UpTo(whole, weight_before, weight_);
    };
    return {.lines_flushed = by_weight(total_.lines_flushed),
            .fences = UpTo(total_.fences, operations_given_, operations_) -
                      UpTo(total_.fences, operations_before, operations_),
            .media_writes_256b = by_weight(total_.media_writes_256b),
            .bytes_stored = by_weight(total_.bytes_stored)};
  }

 private:
  // The share of `whole` that the first `part` of `all` have.
  static uint64_t UpTo(uint64_t whole, uint64_t part, uint64_t all) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(whole) * part / all);
  }

  const Cost total_;
  const uint64_t operations_;
  const uint64_t weight_;
  uint64_t operations_given_ = 0;
  uint64_t weight_given_ = 0;
};

}  // namespace lodgekv::server
