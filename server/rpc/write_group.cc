#include "server/rpc/write_group.h"

#include <chrono>
#include <optional>

#include "index/cost.h"
#include "server/rpc/cost_share.h"
#include "server/rpc/errors.h"
#include "server/rpc/request_check.h"

namespace lodgekv::server {
namespace {

uint64_t WeightOf(const WriteOp& op, const WriteResult& result) {
  return result.outcome == Outcome::kOk ? kOperationWeight + BytesOf(op) : kOperationWeight;
}

}  // namespace

void WriteGroup::Take(WorkQueue<WriteCall, 2>& queue) {
  calls_.clear();
  const size_t most = state_.config().group_operations;
  while (!queue.empty() && calls_.size() < most) calls_.push_back(queue.Take());
}

// Those that the group cannot apply have failed.
void WriteGroup::Prepare() {
  applied_.clear();
  ops_.clear();
  const auto now = std::chrono::system_clock::now();
  for (WriteCall* call : calls_) {
    if (call->DeadlinePassed(now)) {
      call->Fail(DeadlinePassedError());
    } else if (call->Prepare()) {
      applied_.push_back(call);
      ops_.push_back(call->op());
    }
  }
}

uint64_t WriteGroup::Apply(uint64_t now_unix_ms) {
  Prepare();
  if (ops_.empty()) return 0;
  results_.assign(ops_.size(), {});
  const Cost before = ThreadCost();
  // The outcome of each is in its result.
  (void)state_.store()->engine().Write(
      ops_, results_, {.atomic = false, .now_unix_ms = now_unix_ms, .applied_index = std::nullopt});
  ShareCost(ThreadCost() - before);
  return ops_.size();
}

void WriteGroup::ShareCost(const Cost& cost) {
  weights_.clear();
  uint64_t weight = 0;
  for (size_t i = 0; i < ops_.size(); ++i) {
    weights_.push_back(WeightOf(ops_[i], results_[i]));
    weight += weights_.back();
  }
  CostShares shares(cost, ops_.size(), weight);
  for (size_t i = 0; i < applied_.size(); ++i) {
    applied_[i]->AddCost(cost, ops_.size(), shares.Next(weights_[i]));
    applied_[i]->SetResult(results_[i]);
  }
}

}  // namespace lodgekv::server
