#include "server/metrics/metrics_http.h"

#include <microhttpd.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lodgekv::server {
namespace {

// For a request's line and headers; a scrape has a few hundred bytes of them.
constexpr size_t kRequestMemory = 16 << 10;

MHD_Result Answer(MHD_Connection* connection, unsigned code, const char* type,
                  std::string_view body) {
  MHD_Response* response = MHD_create_response_from_buffer(
      body.size(), const_cast<char*>(body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  const MHD_Result queued = MHD_queue_response(connection, code, response);
  MHD_destroy_response(response);
  return queued;
}

// The answer to another path does not repeat it: it is the same for all.
MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* url, const char* method,
                     const char*, const char*, size_t*, void**) {
  const bool reads = std::strcmp(method, "GET") == 0 || std::strcmp(method, "HEAD") == 0;
  if (!reads) {
    return Answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "only GET and HEAD\n");
  }
  if (std::strcmp(url, "/metrics") != 0) {
    return Answer(connection, MHD_HTTP_NOT_FOUND, "text/plain", "the metrics are at /metrics\n");
  }
  const std::string body = static_cast<const MetricsHttp*>(self)->Render();
  return Answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", body);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsHttp>> MetricsHttp::Start(
    std::shared_ptr<const prometheus::Collectable> metrics) {
  std::unique_ptr<MetricsHttp> made(new MetricsHttp(std::move(metrics)));
  made->daemon_ =
      MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC, 0,
                       nullptr, nullptr, &OnRequest, made.get(), MHD_OPTION_CONNECTION_TIMEOUT,
                       kQuietSeconds, MHD_OPTION_CONNECTION_LIMIT, kMostConnections,
                       MHD_OPTION_CONNECTION_MEMORY_LIMIT, kRequestMemory, MHD_OPTION_END);
  if (made->daemon_ == nullptr) {
    return absl::InternalError(
        absl::StrCat("the metrics' HTTP cannot be started: ", std::strerror(errno)));
  }
  return made;
}

MetricsHttp::~MetricsHttp() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

void MetricsHttp::Serve(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  // A peer that has disconnected has no address; reading from it fails at once.
  (void)getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length);
  // Closes the descriptor if it fails.
  (void)MHD_add_connection(daemon_, fd, reinterpret_cast<sockaddr*>(&peer), length);
}

std::string MetricsHttp::Render() const {
  return prometheus::TextSerializer().Serialize(metrics_->Collect());
}

}  // namespace lodgekv::server
