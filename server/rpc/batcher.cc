#include "server/rpc/batcher.h"

#include <chrono>
#include <optional>
#include <span>

#include "index/cost.h"
#include "server/rpc/cost_share.h"
#include "server/rpc/errors.h"
#include "server/rpc/request_check.h"

namespace lodgekv::server {
namespace {

// What batches may take of a turn before the engine sees one of them: many are opened when they are
// refused at a glance, one that is large.
constexpr std::chrono::microseconds kOpeningPerTurn{200};
// No share counts batches that are not opened: large ones do not wait for a turn.
constexpr uint64_t kMostUnopenedBytes = 16 * kMiB;

// Moves up to `most` calls whose deadline has not passed from `queue` to `group`; the others are
// answered.
template <class AnyCall, size_t kLists>
void TakeGroup(WorkQueue<AnyCall, kLists>& queue, size_t most, std::vector<AnyCall*>& group) {
  group.clear();
  const auto now = std::chrono::system_clock::now();
  while (!queue.empty() && group.size() < most) {
    AnyCall* call = queue.Take();
    if (call->DeadlinePassed(now)) {
      call->Answer(DeadlinePassedError());
    } else {
      group.push_back(call);
    }
  }
}

// In the cost of a group (CostShare in kv.proto).
uint64_t WeightOf(const WriteOp& op, const WriteResult& result) {
  constexpr uint64_t kEach = 64;
  return result.outcome == Outcome::kOk ? kEach + BytesOf(op) : kEach;
}

}  // namespace

void Batcher::Serve(uint64_t now_unix_ms) {
  ServeReads(now_unix_ms);
  ServeWrites(now_unix_ms);
  OpenBatches();
  ServeBatch();
}

void Batcher::ServeReads(uint64_t now_unix_ms) {
  if (reads_.empty()) return;
  TakeGroup(reads_, state_.config().group_operations, getters_);
  if (getters_.empty()) return;
  keys_.clear();
  for (const ReadCall* call : getters_) keys_.push_back(call->key());
  if (read_results_.size() < keys_.size()) read_results_.resize(keys_.size());
  const auto results = std::span(read_results_).first(keys_.size());
  const Cost before = ThreadCost();
  // Each result has its own outcome.
  (void)state_.store()->engine().Read(keys_, results, {.now_unix_ms = now_unix_ms});
  const Cost cost = ThreadCost() - before;
  CostShares shares(cost, getters_.size(), getters_.size());
  for (size_t i = 0; i < getters_.size(); ++i) {
    getters_[i]->AddCost(cost, getters_.size(), shares.Next(1));
    getters_[i]->AnswerRead(results[i]);
  }
}

void Batcher::ServeWrites(uint64_t now_unix_ms) {
  if (writes_.empty()) return;
  TakeGroup(writes_, state_.config().group_operations, writers_);
  if (writers_.empty()) return;
  ops_.clear();
  for (const WriteCall* call : writers_) ops_.push_back(call->op());
  write_results_.assign(ops_.size(), {});
  const Cost before = ThreadCost();
  // Each result has its own outcome.
  (void)state_.store()->engine().Write(
      ops_, write_results_,
      {.atomic = false, .now_unix_ms = now_unix_ms, .applied_index = std::nullopt});
  const Cost cost = ThreadCost() - before;
  recorder_.RecordGroup(ops_.size());
  AnswerWrites(cost);
}

// `cost` is that of the group.
void Batcher::AnswerWrites(const Cost& cost) {
  weights_.clear();
  uint64_t weight = 0;
  for (size_t i = 0; i < ops_.size(); ++i) {
    weights_.push_back(WeightOf(ops_[i], write_results_[i]));
    weight += weights_.back();
  }
  CostShares shares(cost, ops_.size(), weight);
  for (size_t i = 0; i < writers_.size(); ++i) {
    state_.NoteOutcome(write_results_[i].outcome);
    recorder_.RecordWrite(ops_[i], write_results_[i]);
    writers_[i]->AddCost(cost, writers_.size(), shares.Next(weights_[i]));
    writers_[i]->AnswerApplied(write_results_[i]);
  }
}

void Batcher::AddUnopened(BatchCall& call) {
  unopened_bytes_ += call.UnopenedBytes();
  unopened_.Add(call, ListOf(call));
  while (unopened_bytes_ > kMostUnopenedBytes) OpenBatch();
}

void Batcher::OpenBatch() {
  BatchCall* call = unopened_.Take();
  unopened_bytes_ -= call->UnopenedBytes();
  call->Open();
}

// At least one, so that each turn has a batch to serve while there are any.
void Batcher::OpenBatches() {
  if (unopened_.empty()) return;
  const auto until = Call::SteadyClock::now() + kOpeningPerTurn;
  do {
    OpenBatch();
  } while (!unopened_.empty() && Call::SteadyClock::now() < until);
}

void Batcher::ServeBatch() {
  if (batches_.empty()) return;
  BatchCall* call = batches_.Take();
  if (call->DeadlinePassed(std::chrono::system_clock::now())) {
    return call->Answer(DeadlinePassedError());
  }
  call->Serve(state_.store()->engine());
}

}  // namespace lodgekv::server
