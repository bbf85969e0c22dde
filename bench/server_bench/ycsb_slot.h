// One operation of YCSB in flight, by the stub of gRPC: a call, or for a read-modify-write two.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/server_bench/put_source.h"
#include "bench/server_bench/ycsb_plan.h"
#include "client/workload/insert_sequence.h"
#include "client/workload/ycsb_workload.h"
#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::server_bench {

// What the slots of a thread share.
struct YcsbLane {
  const YcsbPlan& plan;
  workload::YcsbChooser chooser;
  PutSource source;
  workload::InsertSequence& inserts;
  grpc::CompletionQueue queue = {};
};

class YcsbSlot {
 public:
  YcsbSlot(YcsbLane& lane, v1::KvService::Stub& stub) : lane_(lane), stub_(stub) {}

  // Starts the next operation; events of the queue come with this slot as their tag.
  void Begin(uint64_t now_ns);
  // Takes the event of the queue. True: the operation is done.
  absl::StatusOr<bool> Advance(bool ok);
  // If it is in flight.
  void Cancel();

  workload::YcsbOperation operation() const { return operation_; }
  uint64_t begin_ns() const { return begin_ns_; }

 private:
  // What the queue tells next.
  enum class Step : uint8_t { kNone, kGet, kPut, kScanStart, kScanPage, kScanEnd };

  grpc::ClientContext& NewContext();
  void Get();
  void Put();
  void Scan();
  absl::StatusOr<bool> GetAnswered();
  absl::StatusOr<bool> PutAnswered();
  absl::StatusOr<bool> PageRead(bool ok);
  absl::StatusOr<bool> ScanEnded();
  // The record of the operation, from the source.
  void Draw() { lane_.source.NextBelow(record_, 1); }
  bool IsRight(const std::string& value) const {
    return lane_.plan.any_answer || value.size() == lane_.plan.value_bytes;
  }

  YcsbLane& lane_;
  v1::KvService::Stub& stub_;
  workload::YcsbOperation operation_ = workload::YcsbOperation::kRead;
  Step step_ = Step::kNone;
  uint64_t record_ = 0;
  uint64_t begin_ns_ = 0;
  uint64_t items_ = 0;  // that the scan has read
  std::optional<grpc::ClientContext> context_;
  grpc::Status status_;
  v1::GetRequest get_;
  v1::GetResponse got_;
  v1::PutRequest put_;
  v1::PutResponse written_;
  v1::ScanRequest scan_;
  v1::ScanResponse page_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::GetResponse>> get_reader_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::PutResponse>> put_reader_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::ScanResponse>> page_reader_;
};

}  // namespace lodgekv::server_bench
