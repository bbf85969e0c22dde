// The statistics of one polling thread: latencies by call and code, and the groups of writes.
// Written only by that thread, with plain stores, so that counting needs no lock and no shared
// cache line, but for what is rare: groups and refusals are counted by any thread. Read by the
// metrics at any time.
#pragma once

#include <grpcpp/support/status.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "index/cost.h"
#include "index/engine.h"
#include "server/rpc/admission.h"

namespace lodgekv::server {

enum class Method : uint8_t { kGet, kPut, kDelete, kScan, kBatchGet, kBatchWrite, kSession };
inline constexpr size_t kMethodCount = 7;
inline constexpr std::array<std::string_view, kMethodCount> kMethodNames{
    "Get", "Put", "Delete", "Scan", "BatchGet", "BatchWrite", "Session"};

// Upper bounds of the latency buckets in nanoseconds: 1 us to 1 s.
inline constexpr std::array<uint64_t, 19> kLatencyBoundsNs{
    1'000,      2'000,       5'000,       10'000,      20'000,       50'000,     100'000,
    200'000,    500'000,     1'000'000,   2'000'000,   5'000'000,    10'000'000, 20'000'000,
    50'000'000, 100'000'000, 200'000'000, 500'000'000, 1'000'000'000};
inline constexpr size_t kCodeCount = 17;  // gRPC's codes, 0 to 16

// The name of a code as in the label `code`, such as OK or INVALID_ARGUMENT.
std::string_view CodeName(grpc::StatusCode code);

// Adds with a load and a store: exact, since only one thread writes.
class OwnedCounter {
 public:
  void Add(uint64_t n) { value_.store(Get() + n, std::memory_order_relaxed); }
  uint64_t Get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// For any number of writers.
class SharedCounter {
 public:
  void Add(uint64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t Get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct LatencyCell {
  std::array<OwnedCounter, kLatencyBoundsNs.size() + 1> buckets;  // the last: above all bounds
  OwnedCounter sum_ns;
};

struct CostCell {
  OwnedCounter lines_flushed;
  OwnedCounter fences;
  OwnedCounter media_writes_256b;
  OwnedCounter bytes_stored;
};

class RpcRecorder {
 public:
  void Record(Method method, grpc::StatusCode code, uint64_t latency_ns);
  void RecordCost(Method method, const Cost& cost) {
    CostCell& cell = costs_[static_cast<size_t>(method)];
    cell.lines_flushed.Add(cost.lines_flushed);
    cell.fences.Add(cost.fences);
    cell.media_writes_256b.Add(cost.media_writes_256b);
    cell.bytes_stored.Add(cost.bytes_stored);
  }
  // Running totals.
  Cost cost(size_t method) const {
    const CostCell& cell = costs_[method];
    return {cell.lines_flushed.Get(), cell.fences.Get(), cell.media_writes_256b.Get(),
            cell.bytes_stored.Get()};
  }
  // For any thread.
  void RecordGroup(uint64_t operations) {
    write_groups_.Add(1);
    write_group_operations_.Add(operations);
  }
  // Counts a put or delete, single or in a batch, with the bytes of its key and value, if it
  // changed anything.
  void RecordWrite(const WriteOp& op, const WriteResult& result);

  // Counts the operations of a message of a session.
  void RecordSession(uint64_t operations) { session_operations_.Add(operations); }

  // For any thread.
  void RecordRefusal(AdmissionLimit limit) { refusals_[static_cast<size_t>(limit)].Add(1); }
  // A call was cancelled because the client did not read the answer.
  void RecordUnread() { unread_.Add(1); }

  const LatencyCell& cell(size_t method, size_t code) const { return cells_[method][code]; }
  uint64_t write_groups() const { return write_groups_.Get(); }
  uint64_t write_group_operations() const { return write_group_operations_.Get(); }
  uint64_t write_operations() const { return write_operations_.Get(); }
  uint64_t write_bytes() const { return write_bytes_.Get(); }
  uint64_t session_operations() const { return session_operations_.Get(); }
  uint64_t refusals(size_t limit) const { return refusals_[limit].Get(); }
  uint64_t unread() const { return unread_.Get(); }

 private:
  std::array<std::array<LatencyCell, kCodeCount>, kMethodCount> cells_;
  std::array<CostCell, kMethodCount> costs_;
  SharedCounter write_groups_;
  SharedCounter write_group_operations_;
  OwnedCounter write_operations_;
  OwnedCounter write_bytes_;
  OwnedCounter session_operations_;
  std::array<SharedCounter, kAdmissionLimits> refusals_;
  OwnedCounter unread_;
};

}  // namespace lodgekv::server
