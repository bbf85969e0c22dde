// Writes a stream of records, with several calls in flight.
//
// INVARIANTS
// - Acknowledged records are reported in the order they were added, on the thread that calls Add
//   and Finish; also those acknowledged after the first failure.
// - A key that is added twice ends with the later value: a record waits until no earlier one with
//   its key is in flight.
// - Nothing is sent before the server has answered a call that writes nothing: from a server that
//   was never reached no record is unknown.
// - After the first failure nothing more is sent. Nothing is ever retried, except a batch of
//   deletes for which a full pool had no log space: its halves may still fit, and a single delete
//   always does.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/lodgekv_client.h"

namespace lodgekv::lodgectl {

struct LoadOptions {
  // Operations per call; if 1, puts are single Puts, which the server groups.
  uint64_t batch = 256;
  // Calls in flight; a few more while a batch is split in halves.
  uint64_t concurrency = 4;
  // Everything in one call, all or nothing, regardless of `batch`.
  bool atomic = false;
};

class LoadPipeline {
 public:
  using Acknowledged = std::function<void(const std::vector<client::BatchOp>&)>;

  LoadPipeline(client::Client& client, const LoadOptions& options, Acknowledged acknowledged);
  // Waits for calls in flight.
  ~LoadPipeline();
  LoadPipeline(const LoadPipeline&) = delete;
  LoadPipeline& operator=(const LoadPipeline&) = delete;

  // Returns the status of the first call that failed; it stays. The value expires at `expire_time`:
  // its time to live, which the server counts, is what is left when the record is sent.
  [[nodiscard]] absl::Status Add(client::BatchOp op,
                                 std::optional<absl::Time> expire_time = std::nullopt);

  // Sends the rest and waits for everything.
  [[nodiscard]] absl::Status Finish();

  // Waits for everything that was sent; the rest is dropped.
  [[nodiscard]] absl::Status Wait();

  uint64_t acknowledged() const { return acknowledged_count_; }
  // Records that had expired when it was their turn: they were not sent.
  uint64_t expired() const { return expired_count_; }
  // Calls that failed without telling whether they were applied.
  uint64_t unknown() const { return unknown_count_; }

 private:
  struct Call {
    std::vector<client::BatchOp> ops;
    std::promise<absl::Status> promise;
    std::future<absl::Status> answer = promise.get_future();
  };

  bool IsFull(const client::BatchOp& next) const;
  bool HasAnswered();
  void Send();
  void SetTimesToLive(absl::Time now);
  void Start(Call& call);
  bool MayGoInHalves(const Call& call, const absl::Status& status) const;
  void SendHalves(std::vector<client::BatchOp> ops);
  bool OldestIsDone() const;
  void WaitForOldest();
  void WaitForAll();

  client::Client& client_;
  const LoadOptions options_;
  const Acknowledged acknowledged_;
  absl::Status status_;
  bool has_answered_ = false;
  uint64_t acknowledged_count_ = 0;
  uint64_t unknown_count_ = 0;
  uint64_t expired_count_ = 0;
  std::vector<client::BatchOp> batch_;
  std::vector<std::optional<absl::Time>> expire_times_;  // of those in batch_
  size_t batch_bytes_ = 0;
  std::deque<std::unique_ptr<Call>> calls_;
  // Keys of batch_ and calls_.
  absl::flat_hash_set<std::string> keys_;
};

}  // namespace lodgekv::lodgectl
