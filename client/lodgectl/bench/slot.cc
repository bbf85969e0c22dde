#include "client/lodgectl/bench/slot.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "client/conversions.h"

namespace lodgekv::lodgectl {

using workload::YcsbOperation;

void BenchSlot::Begin(uint64_t begin_ns) {
  BenchSource& source = wire_.source;
  answer_ = {.operation = source.chooser.NextOperation(), .begin_ns = begin_ns};
  if (source.plan.calls == BenchCalls::kBatch) {
    return answer_.operation == YcsbOperation::kRead ? SendBatchGet() : SendBatchWrite();
  }
  record_ =
      answer_.operation == YcsbOperation::kInsert ? source.inserts.Take() : source.NextRecord();
  source.keys.Set(record_, key_);
  if (answer_.operation == YcsbOperation::kScan) return SendScan();
  // A read-modify-write has both, and its value is drawn here: the answer to its read comes on
  // another thread.
  if (answer_.operation != YcsbOperation::kRead) {
    const std::string_view value = source.NextValue();
    put_.request.set_key(key_);
    put_.request.set_value(value.data(), value.size());
  }
  if (answer_.operation == YcsbOperation::kUpdate || answer_.operation == YcsbOperation::kInsert) {
    return SendPut();
  }
  SendGet();
}

bool BenchSlot::Advance(bool ok) {
  switch (step_) {
    case Step::kGet: return GetAnswered();
    case Step::kBatch: return BatchAnswered();
    case Step::kScanStart:
    case Step::kScanPage: return PageRead(ok);
    case Step::kPut:
    case Step::kScanEnd:
    case Step::kResting:
    case Step::kFree: break;
  }
  return Done();
}

void BenchSlot::Rest(absl::Duration duration) {
  step_ = Step::kResting;
  alarm_.Set(&wire_.queue, absl::ToChronoTime(absl::Now() + duration), this);
}

void BenchSlot::Cancel() {
  if (step_ == Step::kResting) {
    alarm_.Cancel();
  } else if (step_ != Step::kFree) {
    context_->TryCancel();
  }
}

// Readers of the call before are destroyed before its context.
grpc::ClientContext& BenchSlot::NewContext() {
  get_.reader.reset();
  put_.reader.reset();
  batch_get_.reader.reset();
  batch_write_.reader.reset();
  page_reader_.reset();
  context_.emplace();
  client::SetDeadline(*context_, wire_.timeout);
  return *context_;
}

void BenchSlot::SendGet() {
  step_ = Step::kGet;
  get_.request.set_key(key_);
  get_.reader = stub_.AsyncGet(&NewContext(), get_.request, &wire_.queue);
  get_.reader->Finish(&get_.response, &wire_status_, this);
}

void BenchSlot::SendPut() {
  step_ = Step::kPut;
  put_.reader = stub_.AsyncPut(&NewContext(), put_.request, &wire_.queue);
  put_.reader->Finish(&put_.response, &wire_status_, this);
}

void BenchSlot::SendScan() {
  step_ = Step::kScanStart;
  answer_.operations = 0;
  const uint64_t items = wire_.source.plan.batch;
  scan_.set_start(key_);
  scan_.set_prefix(wire_.source.keys.prefix());
  scan_.set_limit(items > 0 ? items : wire_.source.chooser.NextScanLength());
  page_reader_ = stub_.AsyncScan(&NewContext(), scan_, &wire_.queue, this);
}

void BenchSlot::SendBatchGet() {
  step_ = Step::kBatch;
  batch_.clear();
  batch_get_.request.clear_keys();
  answer_.operations = wire_.source.plan.batch;
  for (uint64_t i = 0; i < answer_.operations; ++i) {
    wire_.source.keys.Set(NextOfBatch(), *batch_get_.request.add_keys());
  }
  batch_get_.reader = stub_.AsyncBatchGet(&NewContext(), batch_get_.request, &wire_.queue);
  batch_get_.reader->Finish(&batch_get_.response, &wire_status_, this);
}

void BenchSlot::SendBatchWrite() {
  step_ = Step::kBatch;
  batch_.clear();
  batch_write_.request.clear_operations();
  answer_.operations = wire_.source.plan.batch;
  for (uint64_t i = 0; i < answer_.operations; ++i) {
    v1::Operation& operation = *batch_write_.request.add_operations();
    operation.set_kind(v1::OPERATION_KIND_PUT);
    wire_.source.keys.Set(NextOfBatch(), *operation.mutable_key());
    const std::string_view value = wire_.source.NextValue();
    operation.set_value(value.data(), value.size());
  }
  batch_write_.reader = stub_.AsyncBatchWrite(&NewContext(), batch_write_.request, &wire_.queue);
  batch_write_.reader->Finish(&batch_write_.response, &wire_status_, this);
}

// The next one that is free: a popular record would be drawn again and again.
uint64_t BenchSlot::NextOfBatch() {
  uint64_t record = wire_.source.NextRecord();
  while (!batch_.insert(record).second) record = (record + 1) % wire_.source.plan.keys;
  return record;
}

bool BenchSlot::GetAnswered() {
  if (!wire_status_.ok()) return Done();
  answer_.not_found = get_.response.found() ? 0 : 1;
  if (answer_.operation == YcsbOperation::kRead) return Done();
  SendPut();
  return false;
}

bool BenchSlot::BatchAnswered() {
  if (wire_status_.ok() && answer_.operation == YcsbOperation::kRead) {
    for (const v1::Lookup& result : batch_get_.response.results()) {
      answer_.not_found += result.found() ? 0 : 1;
    }
  }
  return Done();
}

// The event of the start has no page yet; one that is not ok says that there is none left.
bool BenchSlot::PageRead(bool ok) {
  if (!ok) {
    step_ = Step::kScanEnd;
    page_reader_->Finish(&wire_status_, this);
    return false;
  }
  if (step_ == Step::kScanPage) answer_.operations += static_cast<uint64_t>(page_.items_size());
  step_ = Step::kScanPage;
  page_reader_->Read(&page_, this);
  return false;
}

bool BenchSlot::Done() {
  if (step_ == Step::kScanEnd && wire_status_.ok()) answer_.not_found = answer_.operations == 0;
  step_ = Step::kFree;
  status_ = client::ToAbsl(wire_status_);
  // A number that failed is as good as known: otherwise no later one ever would be.
  if (answer_.operation == YcsbOperation::kInsert) wire_.source.inserts.Answered(record_);
  return true;
}

}  // namespace lodgekv::lodgectl
