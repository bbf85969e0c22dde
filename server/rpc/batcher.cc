#include "server/rpc/batcher.h"

#include <chrono>
#include <optional>
#include <span>

#include "index/cost.h"
#include "server/rpc/cost_share.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {
namespace {

// How long one round may parse batches before the engine gets one: many are parsed if they are
// refused quickly, one if it is large.
constexpr std::chrono::microseconds kParsingPerRound{200};
// The shares of connections do not count unparsed batches: with more bytes of them than this, the
// next ones are parsed at once.
constexpr uint64_t kMaxUnparsedBytes = 16 * kMiB;

}  // namespace

void Batcher::Serve(uint64_t now_unix_ms) {
  ServeReads(now_unix_ms);
  ServeWrites(now_unix_ms);
  ServeTurns(now_unix_ms);
  ParseBatches();
  ServeBatch(now_unix_ms);
}

void Batcher::ServeReads(uint64_t now_unix_ms) {
  if (reads_.empty()) return;
  TakeReaders();
  if (readers_.empty()) return;
  keys_.clear();
  for (const ReadCall* call : readers_) keys_.push_back(call->key());
  if (read_results_.size() < keys_.size()) read_results_.resize(keys_.size());
  const auto results = std::span(read_results_).first(keys_.size());
  const Cost before = ThreadCost();
  // The outcome of each is in its result.
  (void)state_.store()->engine().Read(keys_, results,
                                      {.now_unix_ms = now_unix_ms, .most_value_bytes = kLongBytes});
  const Cost cost = ThreadCost() - before;
  CostShares shares(cost, readers_.size(), readers_.size());
  for (size_t i = 0; i < readers_.size(); ++i) {
    readers_[i]->AddCost(cost, readers_.size(), shares.Next(1));
    if (results[i].left_out) {
      host_.EnqueueLong(*readers_[i]);
    } else {
      readers_[i]->AnswerGrouped(results[i]);
    }
  }
}

// Those whose deadline has passed are answered instead.
void Batcher::TakeReaders() {
  readers_.clear();
  const size_t most = state_.config().group_operations;
  const auto now = std::chrono::system_clock::now();
  while (!reads_.empty() && readers_.size() < most) {
    ReadCall* call = reads_.Take();
    if (call->DeadlinePassed(now)) {
      call->Answer(DeadlinePassedError());
    } else {
      readers_.push_back(call);
    }
  }
}

void Batcher::ServeWrites(uint64_t now_unix_ms) {
  if (writes_.empty()) return;
  writes_at_hand_.Take(writes_);
  const uint64_t operations = writes_at_hand_.Apply(now_unix_ms);
  if (operations != 0) host_.recorder().RecordGroup(operations);
  for (WriteCall* call : writes_at_hand_.calls()) call->Deliver();
}

void Batcher::ServeTurns(uint64_t now_unix_ms) {
  if (turns_.empty()) return;
  sessions_at_hand_.Take(turns_, kLongBatchOfWrites);
  sessions_at_hand_.Serve(now_unix_ms, SessionGroup::kAllRounds);
  for (SessionTurn* turn : sessions_at_hand_.turns()) turn->Deliver();
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

void Batcher::ServeBatch(uint64_t now_unix_ms) {
  if (batches_.empty()) return;
  BatchCall* call = batches_.Take();
  if (call->DeadlinePassed(std::chrono::system_clock::now())) {
    return call->Answer(DeadlinePassedError());
  }
  if (!call->Serve(state_.store()->engine(), now_unix_ms, kLongBytes)) {
    return host_.EnqueueRest(*call);
  }
  call->Deliver();
}

}  // namespace lodgekv::server
