// The metrics over HTTP, by libmicrohttpd: GET /metrics in Prometheus' text format, on connections
// accepted elsewhere. One event-driven thread serves all of them, so that a connection without a
// request, or with a slow reader, delays no scrape.
//
// INVARIANT  A descriptor given to Serve is closed, at the latest when the connection has been idle
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
  // Closes open connections.
  ~MetricsHttp();
  MetricsHttp(const MetricsHttp&) = delete;
  MetricsHttp& operator=(const MetricsHttp&) = delete;

  // Takes ownership of the connection in any case.
  void Serve(int fd);

  // The body of an answer: the current values of all metrics.
  std::string Render() const;

 private:
  explicit MetricsHttp(std::shared_ptr<const prometheus::Collectable> metrics)
      : metrics_(std::move(metrics)) {}

  const std::shared_ptr<const prometheus::Collectable> metrics_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace lodgekv::server
