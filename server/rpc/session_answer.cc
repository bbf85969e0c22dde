#include "server/rpc/session_answer.h"

#include <grpc/slice.h>

#include <string>
#include <utility>
#include <vector>

#include "lodgekv/v1/kv.pb.h"
#include "server/rpc/cost_message.h"
#include "server/rpc/errors.h"
#include "server/rpc/wire_writer.h"

namespace lodgekv::server {
namespace {

using Response = v1::SessionResponse;
using ResultMessage = v1::OperationResult;

class Answer {
 public:
  explicit Answer(const SessionMessage& message) : message_(message) {
    if (message.error()) error_ = RpcStatusBytes(*message.error());
    if (message.want_cost()) {
      cost_ = CostBytes(message.cost, message.group_operations, message.share);
    }
    for (size_t i = 0; i < message.ops().size(); ++i) NoteError(i);
  }

  grpc::Slice OnWire() {
    size_t bytes =
        wire::NumberBytes(message_.id()) + wire::TextBytes(error_) + wire::TextBytes(cost_);
    VisitResults([&](const ReadResult& result, const std::string& error) {
      bytes += wire::NestedBytes(ContentBytes(result, error));
    });
    grpc_slice slice = grpc_slice_malloc(bytes);
    wire::FieldWriter writer(GRPC_SLICE_START_PTR(slice));
    writer.Number(Response::kIdFieldNumber, message_.id());
    VisitResults([&](const ReadResult& result, const std::string& error) {
      writer.BeginNested(Response::kResultsFieldNumber, ContentBytes(result, error));
      WriteContent(result, error, writer);
    });
    writer.Text(Response::kErrorFieldNumber, error_);
    writer.Text(Response::kCostFieldNumber, cost_);
    return grpc::Slice(slice, grpc::Slice::STEAL_REF);
  }

 private:
  void NoteError(size_t index) {
    const SessionOp& op = message_.ops()[index];
    const SessionResult& own = message_.results()[index];
    if (own.left_out) {
      errors_.emplace_back(index, RpcStatusBytes(*message_.left_out_error()));
    } else if (own.result.outcome != Outcome::kOk) {
      const WriteResult result{own.result.outcome, own.result.found, own.result.version};
      const OperationPlace place{.condition = op.op.condition, .index = static_cast<int>(index)};
      errors_.emplace_back(index, RpcStatusBytes(FromWriteResult(result, place)));
    }
  }

  // Calls visit(result, error) for each operation; an empty error: it is done.
  template <class Visit>
  void VisitResults(Visit visit) const {
    static const std::string kNone;
    auto next_error = errors_.begin();
    for (size_t i = 0; i < message_.results().size(); ++i) {
      const bool failed = next_error != errors_.end() && next_error->first == i;
      visit(message_.results()[i].result, failed ? (next_error++)->second : kNone);
    }
  }

  static size_t ContentBytes(const ReadResult& result, const std::string& error) {
    if (!error.empty()) return wire::TextBytes(error);
    return (result.found ? wire::kBoolBytes : 0) + wire::TextBytes(result.value) +
           wire::NumberBytes(result.version) + wire::ExpiryBytes(result.expiry_unix_ms);
  }

  static void WriteContent(const ReadResult& result, const std::string& error,
                           wire::FieldWriter& writer) {
    if (!error.empty()) return writer.Text(ResultMessage::kErrorFieldNumber, error);
    writer.Bool(ResultMessage::kFoundFieldNumber, result.found);
    writer.Text(ResultMessage::kValueFieldNumber, result.value);
    writer.Number(ResultMessage::kVersionFieldNumber, result.version);
    writer.Expiry(ResultMessage::kExpireTimeFieldNumber, result.expiry_unix_ms);
  }

  const SessionMessage& message_;
  std::string error_;
  std::string cost_;
  std::vector<std::pair<size_t, std::string>> errors_;  // of operations, in their order
};

}  // namespace

grpc::Slice SessionAnswerOnWire(const SessionMessage& message) { return Answer(message).OnWire(); }

}  // namespace lodgekv::server
