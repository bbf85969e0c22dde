// One call in flight at a time, of those of a lane: begun, moved on by events of the lane's
// completion queue, and then counted.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/lodgectl/bench/keys.h"
#include "client/lodgectl/bench/plan.h"
#include "client/lodgectl/bench/tally.h"
#include "client/workload/insert_sequence.h"
#include "client/workload/value_text.h"
#include "client/workload/ycsb_workload.h"
#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::lodgectl {

// Draws a thread's calls. Not thread-safe, but for what is said to be.
struct BenchSource {
  BenchSource(const BenchPlan& of, uint64_t seed, workload::InsertSequence& sequence)
      : plan(of),
        keys(of.fixed64, of.key_bytes),
        random(seed),
        text(random, of.value_bytes),
        chooser(of.mix, of.keys, random.Next()),
        inserts(sequence) {}

  uint64_t NextRecord() { return chooser.NextRecord(inserts.known()); }
  std::string_view NextValue() { return text.At(text.Draw(random)); }

  const BenchPlan& plan;
  const BenchKeys keys;
  workload::Random random;
  workload::ValueText text;
  workload::YcsbChooser chooser;
  workload::InsertSequence& inserts;  // thread-safe
};

// What the slots of a lane share.
struct BenchWire {
  BenchSource& source;
  absl::Duration timeout;
  grpc::CompletionQueue queue = {};
};

class BenchSlot {
 public:
  BenchSlot(BenchWire& wire, v1::KvService::Stub& stub) : wire_(wire), stub_(stub) {}

  // Draws the next call and sends it; its latency counts from begin_ns. Events of the queue come
  // with this slot as their tag.
  void Begin(uint64_t begin_ns);
  // Takes an event of the queue. True: the slot is free, and what it did is in answer(), status().
  bool Advance(bool ok);
  // A free slot's event comes after this time.
  void Rest(absl::Duration duration);
  // If a call is in flight.
  void Cancel();

  bool is_resting() const { return step_ == Step::kResting; }
  const BenchTally::Answer& answer() const { return answer_; }
  const absl::Status& status() const { return status_; }

 private:
  // What the queue says next.
  enum class Step : uint8_t {
    kFree,
    kResting,
    kGet,
    kPut,
    kBatch,
    kScanStart,
    kScanPage,
    kScanEnd
  };

  // A call with a single answer.
  template <typename Request, typename Response>
  struct Unary {
    Request request;
    Response response;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
  };

  grpc::ClientContext& NewContext();
  void SendGet();
  void SendPut();
  void SendScan();
  void SendBatchGet();
  void SendBatchWrite();
  // A record that is not in the batch yet.
  uint64_t NextOfBatch();
  bool GetAnswered();
  bool BatchAnswered();
  bool PageRead(bool ok);
  bool Done();

  BenchWire& wire_;
  v1::KvService::Stub& stub_;
  Step step_ = Step::kFree;
  uint64_t record_ = 0;
  std::string key_;
  absl::flat_hash_set<uint64_t> batch_;
  BenchTally::Answer answer_;
  absl::Status status_;
  grpc::Alarm alarm_;
  std::optional<grpc::ClientContext> context_;
  grpc::Status wire_status_;
  Unary<v1::GetRequest, v1::GetResponse> get_;
  Unary<v1::PutRequest, v1::PutResponse> put_;
  Unary<v1::BatchGetRequest, v1::BatchGetResponse> batch_get_;
  Unary<v1::BatchWriteRequest, v1::BatchWriteResponse> batch_write_;
  v1::ScanRequest scan_;
  v1::ScanResponse page_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::ScanResponse>> page_reader_;
};

}  // namespace lodgekv::lodgectl
