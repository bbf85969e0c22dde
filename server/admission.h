// How much work the server has in hand: operations accepted and not yet answered, and the bytes of
// keys and values held for them, answers included until the client has taken them.
//
// INVARIANT  What Enter admitted is handed back by Leave, to the operation and to the byte.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/limits.h"

namespace lodgekv::server {

class Admission {
 public:
  enum class Verdict { kAdmitted, kTooManyOperations, kTooManyBytes };

  Admission(uint64_t max_operations, uint64_t max_bytes)
      : max_operations_(max_operations), max_bytes_(max_bytes) {}

  // Takes both or neither.
  Verdict Enter(uint64_t operations, uint64_t bytes) {
    if (operations_.fetch_add(operations, std::memory_order_relaxed) + operations >
        max_operations()) {
      operations_.fetch_sub(operations, std::memory_order_relaxed);
      return Verdict::kTooManyOperations;
    }
    if (bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes > max_bytes()) {
      Leave(operations, bytes);
      return Verdict::kTooManyBytes;
    }
    return Verdict::kAdmitted;
  }

  // Bytes of an answer: counted though above the limit, since its work is done. They keep later
  // work out until the client has taken them.
  void Grow(uint64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }

  void Leave(uint64_t operations, uint64_t bytes) {
    operations_.fetch_sub(operations, std::memory_order_relaxed);
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // What is admitted stays so, though it may then lie above the new limits.
  void SetLimits(uint64_t max_operations, uint64_t max_bytes) {
    max_operations_.store(max_operations, std::memory_order_relaxed);
    max_bytes_.store(max_bytes, std::memory_order_relaxed);
  }

  uint64_t max_operations() const { return max_operations_.load(std::memory_order_relaxed); }
  uint64_t max_bytes() const { return max_bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> max_operations_;
  std::atomic<uint64_t> max_bytes_;
  std::atomic<uint64_t> operations_{0};
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace lodgekv::server
