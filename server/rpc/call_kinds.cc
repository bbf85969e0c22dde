#include "server/rpc/call_kinds.h"

namespace lodgekv::server {

void WriteCall::DeliverResult() {
  host_.state().NoteOutcome(result_.outcome);
  host_.recorder().RecordWrite(op_, result_);
  AnswerApplied();
}

}  // namespace lodgekv::server
