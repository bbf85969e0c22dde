// The metrics over HTTP, by libmicrohttpd: GET /metrics in Prometheus' text format, on connections
// that somebody else has accepted. One thread serves all of them by events, so that a connection
// which asks nothing, or takes its answer slowly, holds up no scrape.
//
// INVARIANT  A descriptor given to Serve is closed, at the latest when a connection has been quiet
//            for kQuietSeconds.
// Thread safety: Serve at any time.
#pragma once

#include <prometheus/collectable.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

struct MHD_Daemon;

namespace lodgekv::server {

class MetricsHttp {
 public:
  static constexpr unsigned kQuietSeconds = 10;
  static constexpr unsigned kMostConnections = 256;

  static absl::StatusOr<std::unique_ptr<MetricsHttp>> Start(
      std::shared_ptr<const prometheus::Collectable> metrics);
  // Cuts what is open.
  ~MetricsHttp();
  MetricsHttp(const MetricsHttp&) = delete;
  MetricsHttp& operator=(const MetricsHttp&) = delete;

  // Takes the connection over, whatever becomes of it.
  void Serve(int fd);

  // Of an answer: all metrics as they are now.
  std::string Render() const;

 private:
  explicit MetricsHttp(std::shared_ptr<const prometheus::Collectable> metrics)
      : metrics_(std::move(metrics)) {}

  const std::shared_ptr<const prometheus::Collectable> metrics_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace lodgekv::server
