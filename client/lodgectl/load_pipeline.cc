#include "client/lodgectl/load_pipeline.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"

namespace lodgekv::lodgectl {
namespace {

// Total of keys and values in a call, unless a single record has more. Far below the server's own
// limit, so that a large batch is split here instead of refused there.
constexpr size_t kBatchBytes = size_t{1} << 20;

size_t SizeOf(const client::BatchOp& op) {
  return op.key.size() + (op.value ? op.value->size() : 0);
}

}  // namespace

LoadPipeline::LoadPipeline(client::Client& client, const LoadOptions& options,
                           Acknowledged acknowledged)
    : client_(client), options_(options), acknowledged_(std::move(acknowledged)) {}

LoadPipeline::~LoadPipeline() { WaitForAll(); }

absl::Status LoadPipeline::Add(client::BatchOp op, std::optional<absl::Time> expire_time) {
  if (!options_.atomic) {
    if (keys_.contains(op.key)) {
      Send();
      WaitForAll();
    } else if (IsFull(op)) {
      Send();
    }
  }
  if (!status_.ok()) return status_;
  keys_.insert(op.key);
  batch_bytes_ += SizeOf(op);
  batch_.push_back(std::move(op));
  expire_times_.push_back(expire_time);
  return status_;
}

absl::Status LoadPipeline::Finish() {
  Send();
  WaitForAll();
  return status_;
}

absl::Status LoadPipeline::Wait() {
  batch_.clear();
  expire_times_.clear();
  WaitForAll();
  return status_;
}

bool LoadPipeline::IsFull(const client::BatchOp& next) const {
  return batch_.size() >= options_.batch || batch_bytes_ + SizeOf(next) > kBatchBytes;
}

// Asks once.
bool LoadPipeline::HasAnswered() {
  if (!has_answered_) {
    status_ = client_.Ping();
    has_answered_ = status_.ok();
  }
  return has_answered_;
}

void LoadPipeline::Send() {
  if (batch_.empty()) return;
  while (calls_.size() >= options_.concurrency || OldestIsDone()) WaitForOldest();
  if (!status_.ok() || !HasAnswered()) return;
  SetTimesToLive(absl::Now());
  if (batch_.empty()) return;
  auto& call = *calls_.emplace_back(std::make_unique<Call>());
  call.ops = std::exchange(batch_, {});
  batch_bytes_ = 0;
  Start(call);
}

// Of the batch that is sent now. Leaves out what has expired.
void LoadPipeline::SetTimesToLive(absl::Time now) {
  size_t kept = 0;
  for (size_t i = 0; i < batch_.size(); ++i) {
    client::BatchOp& op = batch_[i];
    if (expire_times_[i]) {
      op.options.ttl = *expire_times_[i] - now;
      if (*op.options.ttl < absl::Milliseconds(1)) {
        keys_.erase(op.key);
        ++expired_count_;
        continue;
      }
    }
    if (kept != i) batch_[kept] = std::move(op);
    ++kept;
  }
  batch_.erase(batch_.begin() + static_cast<ptrdiff_t>(kept), batch_.end());
  expire_times_.clear();
}

void LoadPipeline::Start(Call& call) {
  auto done = [&call](absl::Status status) { call.promise.set_value(std::move(status)); };
  if (const client::BatchOp& op = call.ops.front();
      call.ops.size() == 1 && op.value && !options_.atomic) {
    client_.StartPut(op.key, *op.value, op.options, done);
  } else {
    client_.StartBatchWrite(call.ops, done);
  }
}

bool LoadPipeline::MayGoInHalves(const Call& call, const absl::Status& status) const {
  if (options_.atomic || call.ops.size() == 1 || !status_.ok()) return false;
  if (client::ErrorOf(status).reason != "POOL_FULL") return false;
  return std::all_of(call.ops.begin(), call.ops.end(), [](const auto& op) { return !op.value; });
}

// At the front of the queue, so that the order of acknowledgements stays.
void LoadPipeline::SendHalves(std::vector<client::BatchOp> ops) {
  const auto middle = ops.begin() + static_cast<ptrdiff_t>(ops.size() / 2);
  for (const auto& [begin, end] : {std::pair(middle, ops.end()), std::pair(ops.begin(), middle)}) {
    auto& call = *calls_.emplace_front(std::make_unique<Call>());
    call.ops.assign(std::make_move_iterator(begin), std::make_move_iterator(end));
    Start(call);
  }
}

bool LoadPipeline::OldestIsDone() const {
  return !calls_.empty() &&
         calls_.front()->answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void LoadPipeline::WaitForOldest() {
  const std::unique_ptr<Call> call = std::move(calls_.front());
  calls_.pop_front();
  const absl::Status status = call->answer.get();
  if (MayGoInHalves(*call, status)) return SendHalves(std::move(call->ops));
  for (const client::BatchOp& op : call->ops) keys_.erase(op.key);
  if (status.ok()) {
    acknowledged_count_ += call->ops.size();
    acknowledged_(call->ops);
    return;
  }
  if (client::WriteIsUnknown(status)) unknown_count_ += call->ops.size();
  if (status_.ok()) status_ = status;
}

void LoadPipeline::WaitForAll() {
  while (!calls_.empty()) WaitForOldest();
}

}  // namespace lodgekv::lodgectl
