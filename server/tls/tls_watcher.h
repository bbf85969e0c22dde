// Serves with the operator's TLS files, and follows their rotation.
//
// A check reads and validates all files; only valid ones are passed on to gRPC's own watcher,
// through files in memory. Given the operator's files, that watcher would use whatever it finds:
// with a key that does not match, the server could no longer answer (docs/decisions/0011).
//
// INVARIANT  The files in use are valid. A rotation to invalid files changes nothing.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "server/tls/memory_file.h"
#include "server/tls/tls_material.h"

namespace lodgekv::server {

class TlsWatcher {
 public:
  // Reads the files for the first time. `interval` is called before each later check.
  static absl::StatusOr<std::unique_ptr<TlsWatcher>> Start(
      TlsFiles files, std::function<std::chrono::milliseconds()> interval);
  ~TlsWatcher();
  TlsWatcher(const TlsWatcher&) = delete;
  TlsWatcher& operator=(const TlsWatcher&) = delete;

  std::shared_ptr<grpc::ServerCredentials> credentials() const { return credentials_; }
  bool needs_client_certificate() const { return !files_.ca.empty(); }

  // Checks now instead of at the next interval, and reports an error at once.
  void CheckNow();

  // For metrics, about the files in use.
  int64_t expiry_unix_s() const { return expiry_unix_s_.load(std::memory_order_relaxed); }
  // 0 without a CA.
  int64_t ca_expiry_unix_s() const { return ca_expiry_unix_s_.load(std::memory_order_relaxed); }
  uint64_t reloads() const { return reloads_.load(std::memory_order_relaxed); }
  uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }
  // The current files are invalid, so that older ones stay in use.
  bool refusing() const { return refusing_.load(std::memory_order_relaxed); }

 private:
  TlsWatcher(TlsFiles files, std::function<std::chrono::milliseconds()> interval)
      : files_(std::move(files)), interval_(std::move(interval)) {}

  absl::Status Begin();
  void Run();
  // patient: an error is logged when two checks in a row found it, since a rotation may need some
  // time from one file to the next.
  void Check(bool patient);
  absl::Status Adopt(const TlsMaterial& material);
  void Refuse(const std::string& why, bool patient);

  const TlsFiles files_;
  const std::function<std::chrono::milliseconds()> interval_;
  std::unique_ptr<MemoryFile> identity_file_;
  std::unique_ptr<MemoryFile> ca_file_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;

  std::mutex check_mutex_;  // held for one check
  TlsMaterial in_use_;
  std::string fault_;  // found by the last check; empty: none
  bool reported_ = false;

  std::atomic<int64_t> expiry_unix_s_{0};
  std::atomic<int64_t> ca_expiry_unix_s_{0};
  std::atomic<uint64_t> reloads_{0};
  std::atomic<uint64_t> refusals_{0};
  std::atomic<bool> refusing_{false};

  std::mutex stop_mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lodgekv::server
