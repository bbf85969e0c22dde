#include "server/tls/tls_watcher.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <pthread.h>

#include <ctime>
#include <utility>

#include "server/base/log.h"

namespace lodgekv::server {
namespace {

// How often gRPC reads the files in memory: its shortest interval.
constexpr unsigned kGrpcRefreshSeconds = 1;

std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const std::string& identity_path,
                                                         const std::string& ca_path) {
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          identity_path, identity_path, ca_path, kGrpcRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (!ca_path.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

void LogMaterial(std::string_view message, const TlsMaterial& material) {
  Log(LogLevel::kInfo, message,
      {{"subject", material.subject},
       {"serial", material.serial},
       {"expires", FormatUtc(material.expiry_unix_s)},
       {"clients_need_certificate", material.ca_pem.empty() ? "no" : "yes"}});
  for (const std::string& warning : material.warnings) Log(LogLevel::kWarning, warning);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsWatcher>> TlsWatcher::Start(
    TlsFiles files, std::function<std::chrono::milliseconds()> interval) {
  std::unique_ptr<TlsWatcher> watcher(new TlsWatcher(std::move(files), std::move(interval)));
  absl::Status status = watcher->Begin();
  if (!status.ok()) return status;
  return watcher;
}

TlsWatcher::~TlsWatcher() {
  {
    const std::lock_guard lock(stop_mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status TlsWatcher::Begin() {
  absl::StatusOr<TlsMaterial> material = LoadTlsMaterial(files_, std::time(nullptr));
  if (!material.ok()) return material.status();
  auto identity_file = MemoryFile::Create(material->identity_pem);
  if (!identity_file.ok()) return identity_file.status();
  identity_file_ = *std::move(identity_file);
  std::string ca_path;
  if (!files_.ca.empty()) {
    auto ca_file = MemoryFile::Create(material->ca_pem);
    if (!ca_file.ok()) return ca_file.status();
    ca_file_ = *std::move(ca_file);
    ca_path = ca_file_->path();
  }
  credentials_ = MakeCredentials(identity_file_->path(), ca_path);
  LogMaterial("TLS", *material);
  expiry_unix_s_ = material->expiry_unix_s;
  ca_expiry_unix_s_ = material->ca_expiry_unix_s;
  in_use_ = *std::move(material);
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "lodgekv-tls");
  return absl::OkStatus();
}

void TlsWatcher::Run() {
  std::unique_lock lock(stop_mutex_);
  while (!wake_.wait_for(lock, interval_(), [this] { return stop_; })) {
    lock.unlock();
    Check(true);
    lock.lock();
  }
}

void TlsWatcher::CheckNow() { Check(false); }

void TlsWatcher::Check(bool patient) {
  const std::lock_guard lock(check_mutex_);
  absl::StatusOr<TlsMaterial> material = LoadTlsMaterial(files_, std::time(nullptr));
  absl::Status status = material.status();
  const bool changed = status.ok() && (material->identity_pem != in_use_.identity_pem ||
                                       material->ca_pem != in_use_.ca_pem);
  if (changed) status = Adopt(*material);
  if (!status.ok()) return Refuse(std::string(status.message()), patient);
  if (changed) {
    LogMaterial("rotated TLS files were loaded", *material);
    in_use_ = *std::move(material);
  } else if (reported_) {
    Log(LogLevel::kInfo, "TLS files are those in use again");
  }
  fault_.clear();
  reported_ = false;
  refusing_ = false;
}

absl::Status TlsWatcher::Adopt(const TlsMaterial& material) {
  absl::Status status = identity_file_->Replace(material.identity_pem);
  if (status.ok() && ca_file_ != nullptr) status = ca_file_->Replace(material.ca_pem);
  if (!status.ok()) return status;
  expiry_unix_s_ = material.expiry_unix_s;
  ca_expiry_unix_s_ = material.ca_expiry_unix_s;
  ++reloads_;
  return absl::OkStatus();
}

void TlsWatcher::Refuse(const std::string& why, bool patient) {
  const bool same = fault_ == why;
  if (!same) reported_ = false;
  fault_ = why;
  if (reported_ || (patient && !same)) return;
  reported_ = true;
  refusing_ = true;
  ++refusals_;
  const bool expired = in_use_.expiry_unix_s < std::time(nullptr);
  Log(expired ? LogLevel::kError : LogLevel::kWarning,
      expired ? "the TLS certificate in use has expired, and the files hold no valid one"
              : "TLS files were not loaded, the previous certificate stays in use",
      {{"what", why}, {"serial", in_use_.serial}, {"expires", FormatUtc(in_use_.expiry_unix_s)}});
}

}  // namespace lodgekv::server
