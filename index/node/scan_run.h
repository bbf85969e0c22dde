// The pairs of one leaf that a scan has still to visit, in its order.
//
// INVARIANT: no leaf has more pairs than kMost, with what is buffered for it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "index/node/codec.h"

namespace lodgekv {

class ScanRun {
 public:
  static constexpr unsigned kMost = 64;

  // So many pairs, of any content.
  void Reset(unsigned count) { end_ = pairs_ + count; }
  Pair* begin() { return pairs_; }
  Pair* end() { return end_; }
  size_t size() const { return static_cast<size_t>(end_ - pairs_); }
  void Insert(Pair* at, Pair pair) {
    std::copy_backward(at, end_, end_ + 1);
    *at = pair;
    ++end_;
  }
  void Erase(Pair* first, Pair* last) { end_ = std::copy(last, end_, first); }

 private:
  Pair pairs_[kMost];
  Pair* end_ = pairs_;
};

}  // namespace lodgekv
