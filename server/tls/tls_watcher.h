// Serves with the operator's TLS files, and with what they are rotated to.
//
// A look reads and judges the files whole; only what is sound is handed on to gRPC's own watcher,
// through files in memory. Pointed at the operator's files that watcher would take whatever it
// finds: with a key that does not fit the server would end to answer (docs/decisions/0011).
//
// INVARIANT  What is served is sound. A rotation to something that is not leaves it as it was.
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
  // Reads the files for the first time. `interval` is asked before each later look.
  static absl::StatusOr<std::unique_ptr<TlsWatcher>> Start(
      TlsFiles files, std::function<std::chrono::milliseconds()> interval);
  ~TlsWatcher();
  TlsWatcher(const TlsWatcher&) = delete;
  TlsWatcher& operator=(const TlsWatcher&) = delete;

  std::shared_ptr<grpc::ServerCredentials> credentials() const { return credentials_; }
  bool needs_client_certificate() const { return !files_.ca.empty(); }

  // Looks now, not at the next interval, and says at once what is wrong.
  void LookNow();

  // For metrics; of what is served.
  int64_t expiry_unix_s() const { return expiry_unix_s_.load(std::memory_order_relaxed); }
  // 0 without a CA.
  int64_t ca_expiry_unix_s() const { return ca_expiry_unix_s_.load(std::memory_order_relaxed); }
  uint64_t reloads() const { return reloads_.load(std::memory_order_relaxed); }
  uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }
  // The files are not what is served, since they are not sound.
  bool refusing() const { return refusing_.load(std::memory_order_relaxed); }

 private:
  TlsWatcher(TlsFiles files, std::function<std::chrono::milliseconds()> interval)
      : files_(std::move(files)), interval_(std::move(interval)) {}

  absl::Status Begin();
  void Run();
  // patient: a fault is told when two looks in a row saw it, since a rotation may take its time
  // from one file to the next.
  void Look(bool patient);
  absl::Status Adopt(const TlsMaterial& material);
  void Refuse(const std::string& why, bool patient);

  const TlsFiles files_;
  const std::function<std::chrono::milliseconds()> interval_;
  std::unique_ptr<MemoryFile> identity_file_;
  std::unique_ptr<MemoryFile> ca_file_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;

  std::mutex look_mutex_;  // of one look
  TlsMaterial served_;
  std::string fault_;  // that the last look saw; empty: none
  bool told_ = false;

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
