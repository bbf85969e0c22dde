#include "bench/server_bench/ycsb_slot.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/server_bench/grpc_channels.h"

namespace lodgekv::server_bench {

void YcsbSlot::Begin(uint64_t now_ns) {
  begin_ns_ = now_ns;
  operation_ = lane_.chooser.NextOperation();
  record_ = operation_ == workload::YcsbOperation::kInsert
                ? lane_.inserts.Take()
                : lane_.chooser.NextRecord(lane_.inserts.known());
  switch (operation_) {
    case workload::YcsbOperation::kRead:
    case workload::YcsbOperation::kReadModifyWrite: return Get();
    case workload::YcsbOperation::kUpdate:
    case workload::YcsbOperation::kInsert: return Put();
    case workload::YcsbOperation::kScan: break;
  }
  Scan();
}

absl::StatusOr<bool> YcsbSlot::Advance(bool ok) {
  switch (step_) {
    case Step::kGet: return GetAnswered();
    case Step::kPut: return PutAnswered();
    case Step::kScanStart:
    case Step::kScanPage: return PageRead(ok);
    case Step::kScanEnd: return ScanEnded();
    case Step::kNone: break;
  }
  return absl::InternalError("an event of an idle slot");
}

void YcsbSlot::Cancel() {
  if (step_ != Step::kNone) context_->TryCancel();
}

// Readers of the call before are destroyed before its context.
grpc::ClientContext& YcsbSlot::NewContext() {
  get_reader_.reset();
  put_reader_.reset();
  page_reader_.reset();
  context_.emplace();
  context_->set_deadline(AnswerDeadline());
  return *context_;
}

void YcsbSlot::Get() {
  Draw();
  get_.set_key(lane_.source.key().data(), lane_.source.key().size());
  step_ = Step::kGet;
  get_reader_ = stub_.AsyncGet(&NewContext(), get_, &lane_.queue);
  get_reader_->Finish(&got_, &status_, this);
}

absl::StatusOr<bool> YcsbSlot::GetAnswered() {
  step_ = Step::kNone;
  if (!status_.ok()) return CallFailed("a read", status_);
  if (!IsRight(got_.value())) {
    return absl::DataLossError(absl::StrCat("record ", record_, " was read with ",
                                            got_.value().size(), " bytes, not ",
                                            lane_.plan.value_bytes));
  }
  if (operation_ == workload::YcsbOperation::kRead) return true;
  Put();
  return false;
}

void YcsbSlot::Put() {
  Draw();
  put_.set_key(lane_.source.key().data(), lane_.source.key().size());
  put_.set_value(lane_.source.value().data(), lane_.source.value().size());
  step_ = Step::kPut;
  put_reader_ = stub_.AsyncPut(&NewContext(), put_, &lane_.queue);
  put_reader_->Finish(&written_, &status_, this);
}

absl::StatusOr<bool> YcsbSlot::PutAnswered() {
  step_ = Step::kNone;
  if (!status_.ok()) return CallFailed("a write", status_);
  if (operation_ == workload::YcsbOperation::kInsert) lane_.inserts.Answered(record_);
  return true;
}

void YcsbSlot::Scan() {
  Draw();
  scan_.set_start(lane_.source.key().data(), lane_.source.key().size());
  scan_.set_limit(lane_.chooser.NextScanLength());
  items_ = 0;
  step_ = Step::kScanStart;
  page_reader_ = stub_.AsyncScan(&NewContext(), scan_, &lane_.queue, this);
}

// The event of the start has no page yet; one that is not ok says that there is none left.
absl::StatusOr<bool> YcsbSlot::PageRead(bool ok) {
  if (!ok) {
    step_ = Step::kScanEnd;
    page_reader_->Finish(&status_, this);
    return false;
  }
  if (step_ == Step::kScanPage) {
    for (const v1::ScanItem& item : page_.items()) {
      if (!IsRight(item.value())) return absl::DataLossError("an item of a scan is too short");
    }
    items_ += static_cast<uint64_t>(page_.items_size());
  }
  step_ = Step::kScanPage;
  page_reader_->Read(&page_, this);
  return false;
}

// It began at a record that is there; only the last ones have fewer behind them than it asked for.
absl::StatusOr<bool> YcsbSlot::ScanEnded() {
  step_ = Step::kNone;
  if (!status_.ok()) return CallFailed("a scan", status_);
  if (items_ == 0 && !lane_.plan.any_answer) return absl::DataLossError("a scan found nothing");
  if (items_ > scan_.limit()) return absl::DataLossError("a scan has more than was asked for");
  return true;
}

}  // namespace lodgekv::server_bench
