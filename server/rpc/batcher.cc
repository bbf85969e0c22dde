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

// How long one round may parse batches before the engine gets one: many are parsed if they are
// refused quickly, one if it is large.
constexpr std::chrono::microseconds kParsingPerRound{200};
// The shares of connections do not count unparsed batches: with more bytes of them than this, the
// next ones are parsed at once.
constexpr uint64_t kMaxUnparsedBytes = 16 * kMiB;

// Moves up to `most` calls from `queue` to `group`; those whose deadline has passed are answered
// instead.
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

// The weight of an operation for CostShares (CostShare in kv.proto).
uint64_t WeightOf(const WriteOp& op, const WriteResult& result) {
  constexpr uint64_t kEach = 64;
  return result.outcome == Outcome::kOk ? kEach + BytesOf(op) : kEach;
}

}  // namespace

void Batcher::Serve(uint64_t now_unix_ms) {
  ServeReads(now_unix_ms);
  ServeWrites(now_unix_ms);
  ParseBatches();
  ServeBatch();
}

void Batcher::ServeReads(uint64_t now_unix_ms) {
  if (reads_.empty()) return;
  TakeGroup(reads_, state_.config().group_operations, readers_);
  if (readers_.empty()) return;
  keys_.clear();
  for (const ReadCall* call : readers_) keys_.push_back(call->key());
  if (read_results_.size() < keys_.size()) read_results_.resize(keys_.size());
  const auto results = std::span(read_results_).first(keys_.size());
  const Cost before = ThreadCost();
  // The outcome of each is in its result.
  (void)state_.store()->engine().Read(keys_, results, {.now_unix_ms = now_unix_ms});
  const Cost cost = ThreadCost() - before;
  CostShares shares(cost, readers_.size(), readers_.size());
  for (size_t i = 0; i < readers_.size(); ++i) {
    readers_[i]->AddCost(cost, readers_.size(), shares.Next(1));
    readers_[i]->AnswerRead(results[i]);
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
  // The outcome of each is in its result.
  (void)state_.store()->engine().Write(
      ops_, write_results_,
      {.atomic = false, .now_unix_ms = now_unix_ms, .applied_index = std::nullopt});
  const Cost cost = ThreadCost() - before;
  recorder_.RecordGroup(ops_.size());
  AnswerWrites(cost);
}

// `cost` is that of the whole group.
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

void Batcher::AddUnparsed(BatchCall& call) {
  unparsed_bytes_ += call.UnparsedBytes();
  unparsed_.Add(call, ListOf(call));
  while (unparsed_bytes_ > kMaxUnparsedBytes) ParseBatch();
}

void Batcher::ParseBatch() {
  BatchCall* call = unparsed_.Take();
  unparsed_bytes_ -= call->UnparsedBytes();
  call->Parse();
}

// At least one, so that each round has a batch to serve if there is any.
void Batcher::ParseBatches() {
  if (unparsed_.empty()) return;
  const auto until = Call::SteadyClock::now() + kParsingPerRound;
  do {
    ParseBatch();
  } while (!unparsed_.empty() && Call::SteadyClock::now() < until);
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
