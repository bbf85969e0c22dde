#include "server/base/grpc_log.h"

#include <grpc/support/log.h>

#include <string_view>

#include "server/base/handshake_log.h"
#include "server/base/log.h"

namespace lodgekv::server {
namespace {

void LogFromGrpc(gpr_log_func_args* args) {
  if (NoteHandshakeFailure(args->message)) return;
  // gRPC ends the process right after such a line.
  const bool fatal = std::string_view(args->message).rfind("assertion failed", 0) == 0;
  Log(fatal ? LogLevel::kCritical : LogLevel::kDebug, "gRPC says", {{"text", args->message}});
  if (fatal) FlushLog();
}

}  // namespace

void AdoptGrpcLog() { gpr_set_log_function(&LogFromGrpc); }

}  // namespace lodgekv::server
