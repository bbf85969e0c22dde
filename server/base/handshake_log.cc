#include "server/base/handshake_log.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "server/base/line_pace.h"
#include "server/base/log.h"

namespace lodgekv::server {
namespace {

// As gRPC 1.51 writes it; after the last colon comes the TLS library's reason.
constexpr std::string_view kHandshakeFailed = "Handshake failed with fatal error";

std::atomic<uint64_t> g_failures{0};

LinePace g_pace;

struct Reporter {
  std::mutex mutex;
  const void* owner = nullptr;  // guarded by mutex, as is the next
  std::function<void(FailedHandshake)> report;
};

Reporter g_reporter;

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
  FailedHandshake failed;
  if (!g_pace.Due(&failed.not_logged_before)) return true;
  failed.reason = ReasonIn(grpc_line);
  failed.at = std::chrono::steady_clock::now();
  const std::lock_guard lock(g_reporter.mutex);
  if (g_reporter.report) {
    g_reporter.report(std::move(failed));
  } else {
    LogFailedHandshake(failed, "unknown");
  }
  return true;
}

void SetHandshakeReporter(const void* owner, std::function<void(FailedHandshake)> reporter) {
  const std::lock_guard lock(g_reporter.mutex);
  g_reporter.owner = owner;
  g_reporter.report = std::move(reporter);
}

void ClearHandshakeReporter(const void* owner) {
  const std::lock_guard lock(g_reporter.mutex);
  if (g_reporter.owner == owner) g_reporter.report = nullptr;
}

void LogFailedHandshake(const FailedHandshake& failed, std::string_view peer) {
  Log(LogLevel::kWarning, "a TLS handshake failed, the connection was refused",
      {{"what", failed.reason}, {"peer", peer}, {"not_logged_before", failed.not_logged_before}});
}

uint64_t HandshakeFailures() { return g_failures; }

}  // namespace lodgekv::server
