#include "server/handshake_log.h"

#include <atomic>

#include "server/line_pace.h"
#include "server/log.h"

namespace lodgekv::server {
namespace {

// As gRPC 1.51 writes it; what is behind the last colon is the TLS library's reason.
constexpr std::string_view kHandshakeFailed = "Handshake failed with fatal error";

std::atomic<uint64_t> g_failures{0};

LinePace g_pace;

std::string_view ReasonIn(std::string_view line) {
  std::string_view reason = line.substr(line.rfind(':') + 1);
  if (!reason.empty() && reason.back() == '.') reason.remove_suffix(1);
  while (!reason.empty() && reason.front() == ' ') reason.remove_prefix(1);
  return reason;
}

}  // namespace

bool NoteHandshakeFailure(std::string_view grpc_line) {
  if (grpc_line.substr(0, kHandshakeFailed.size()) != kHandshakeFailed) return false;
  ++g_failures;
  uint64_t suppressed = 0;
  if (g_pace.Due(&suppressed)) {
    Log(LogLevel::kWarning, "a TLS handshake failed, the connection was refused",
        {{"what", ReasonIn(grpc_line)}, {"not_logged_before", suppressed}});
  }
  return true;
}

uint64_t HandshakeFailures() { return g_failures; }

}  // namespace lodgekv::server
