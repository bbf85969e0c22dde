#include "server/rpc/call_kinds.h"

#include <chrono>
#include <utility>

#include "index/cost.h"
#include "server/rpc/errors.h"

namespace lodgekv::server {

std::optional<grpc::Status> ReadCall::HoldValue(const ReadResult& result) {
  if (result.outcome != Outcome::kOk || !result.found) return std::nullopt;
  return Hold(result.value.size());
}

void ReadCall::AnswerGrouped(ReadResult& result) {
  if (const auto error = HoldValue(result)) return Answer(*error);
  AnswerRead(result);
}

void ReadCall::ReadAlone(Engine& engine, uint64_t now_unix_ms) {
  if (DeadlinePassed(std::chrono::system_clock::now())) return Fail(DeadlinePassedError());
  const std::string_view its_key = key();
  const Cost before = ThreadCost();
  // Its outcome is in the result.
  (void)engine.Read({&its_key, 1}, {&result_, 1}, {.now_unix_ms = now_unix_ms});
  const Cost cost = ThreadCost() - before;
  AddCost(cost, 1, cost);
  if (const auto error = HoldValue(result_)) {
    (void)std::exchange(result_, {});  // an assignment would keep the memory of the value
    Fail(*error);
  }
}

void ReadCall::DeliverResult() {
  ReadResult result = std::exchange(result_, {});
  AnswerRead(result);
}

void WriteCall::DeliverResult() {
  host_.state().NoteWrites(result_.outcome, {&op_, 1}, {&result_, 1});
  host_.recorder().RecordWrite(op_, result_);
  AnswerApplied();
}

}  // namespace lodgekv::server
