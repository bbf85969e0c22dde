#include "server/tls/tls_material.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/file_reader.h"

namespace lodgekv::server {
namespace {

constexpr size_t kMaxFileSize = 1 << 20;

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
void FreeText(char* text) { OPENSSL_free(text); }

using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
using Number = std::unique_ptr<BIGNUM, Freer<BN_free>>;
using Text = std::unique_ptr<char, Freer<FreeText>>;

// A file and the configuration field that names it.
struct NamedFile {
  std::string_view field;
  const std::string& path;
  std::string content;

  std::string Name() const { return fmt::format("{} '{}'", field, path); }
};

absl::Status BadFileError(const NamedFile& file, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{} {}", file.Name(), what));
}

// Removes and returns the last error of the TLS library.
std::string TakeComplaint() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  std::string text = reason != nullptr ? reason : "the TLS library does not say why";
  ERR_clear_error();
  return text;
}

// Regular files only: the daemon would wait for the writer of a pipe.
absl::Status Read(NamedFile& file) {
  absl::StatusOr<std::string> content = ReadWholeFile(file.path, FileKind::kRegular, kMaxFileSize);
  if (!content.ok()) {
    return {content.status().code(),
            fmt::format("{} {}", file.Name(), std::string(content.status().message()))};
  }
  file.content = *std::move(content);
  return absl::OkStatus();
}

Bio Over(const std::string& content) {
  return Bio(BIO_new_mem_buf(content.data(), static_cast<int>(content.size())));
}

// Never asks on a terminal.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<Key> ParseKey(const NamedFile& file) {
  bool asked = false;
  Key key(PEM_read_bio_PrivateKey(Over(file.content).get(), nullptr, &NoPassphrase, &asked));
  if (key != nullptr) return key;
  const bool missing = file.content.find("PRIVATE KEY-----") == std::string::npos;
  const std::string complaint = TakeComplaint();
  if (asked) {
    return BadFileError(
        file,
        "is encrypted, and nobody is there to ask for its passphrase; store the key "
        "unencrypted, readable for the daemon's user alone");
  }
  if (missing) return BadFileError(file, "holds no private key in PEM format");
  return BadFileError(file, fmt::format("holds a private key that cannot be read: {}", complaint));
}

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const NamedFile& file) {
  std::vector<Certificate> certificates;
  const Bio bio = Over(file.content);
  for (;;) {
    Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) break;
    certificates.push_back(std::move(certificate));
  }
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string complaint = TakeComplaint();
  if (!ended) {
    return BadFileError(file, fmt::format("cannot be read at its certificate {}: {}",
                                          certificates.size() + 1, complaint));
  }
  if (certificates.empty()) return BadFileError(file, "holds no certificate in PEM format");
  return certificates;
}

// Only what was checked, without anything else in the files: of two certificates for one key the
// TLS library would use the first. `key` may be null.
absl::StatusOr<std::string> PemOf(const std::vector<Certificate>& certificates, EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  bool written = bio != nullptr;
  if (key != nullptr) {
    written = written &&
              PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1;
  }
  for (const Certificate& certificate : certificates) {
    written = written && PEM_write_bio_X509(bio.get(), certificate.get()) == 1;
  }
  char* text = nullptr;
  const long length = written ? BIO_get_mem_data(bio.get(), &text) : 0;
  if (length > 0) return std::string(text, static_cast<size_t>(length));
  return absl::InternalError(
      fmt::format("certificates cannot be written as PEM: {}", TakeComplaint()));
}

std::string SubjectOf(const X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &text);
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : "(no subject)";
}

std::string SerialOf(const X509* certificate) {
  const Number number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  const Text text(number != nullptr ? BN_bn2hex(number.get()) : nullptr);
  return text != nullptr ? text.get() : "";
}

int64_t ToUnix(const ASN1_TIME* time) {
  std::tm utc{};
  return ASN1_TIME_to_tm(time, &utc) == 1 ? timegm(&utc) : 0;
}

int64_t ExpiryOf(const X509* certificate) { return ToUnix(X509_get0_notAfter(certificate)); }

absl::Status CheckValidity(const NamedFile& file, const X509* certificate, int64_t now_unix_s) {
  const int64_t begin = ToUnix(X509_get0_notBefore(certificate));
  const int64_t end = ExpiryOf(certificate);
  if (now_unix_s > end) {
    return BadFileError(file, fmt::format("holds a certificate ({}) that expired at {}",
                                          SubjectOf(certificate), FormatUtc(end)));
  }
  if (now_unix_s < begin) {
    return BadFileError(file, fmt::format("holds a certificate ({}) that is not valid before {}",
                                          SubjectOf(certificate), FormatUtc(begin)));
  }
  return absl::OkStatus();
}

// Whether the TLS library accepts them: it may find a key too short, for example.
absl::Status CheckAccepted(const NamedFile& cert_file, X509* certificate, EVP_PKEY* key) {
  const Context context(SSL_CTX_new(TLS_server_method()));
  if (context != nullptr && SSL_CTX_use_certificate(context.get(), certificate) == 1 &&
      SSL_CTX_use_PrivateKey(context.get(), key) == 1) {
    return absl::OkStatus();
  }
  return BadFileError(cert_file,
                      fmt::format("holds a certificate ({}) that the TLS library refuses: {}",
                                  SubjectOf(certificate), TakeComplaint()));
}

// Anyone else who can read the key can impersonate the server. The key of another owner may be open
// to a group that we are in, as an orchestrator does it; that our own key is open to a group is
// seldom intended.
absl::Status CheckKeyMode(const NamedFile& file, TlsMaterial& material) {
  struct stat what {};
  if (stat(file.path.c_str(), &what) != 0) return absl::OkStatus();  // it was readable just now
  const unsigned mode = what.st_mode & 0777U;
  if ((mode & 0007U) != 0) {
    return BadFileError(
        file,
        fmt::format("can be read or written by every user of this machine (mode {:04o}): "
                    "prevent that with chmod o-rwx; for a Kubernetes secret, with defaultMode: "
                    "0440",
                    mode));
  }
  if ((mode & 0070U) != 0 && what.st_uid == geteuid()) {
    material.warnings.push_back(fmt::format(
        "{} is open to its group (mode {:04o}); mode 0600 would do", file.Name(), mode));
  }
  return absl::OkStatus();
}

absl::Status LoadIdentity(const TlsFiles& files, int64_t now_unix_s, TlsMaterial& material) {
  NamedFile cert_file{"tls_cert_file", files.cert, ""};
  NamedFile key_file{"tls_key_file", files.key, ""};
  for (NamedFile* file : {&cert_file, &key_file}) {
    absl::Status status = Read(*file);
    if (!status.ok()) return status;
  }
  const auto certificates = ParseCertificates(cert_file);
  if (!certificates.ok()) return certificates.status();
  const auto key = ParseKey(key_file);
  if (!key.ok()) return key.status();
  absl::Status mode = CheckKeyMode(key_file, material);
  if (!mode.ok()) return mode;
  X509* own = certificates->front().get();
  if (X509_check_private_key(own, key->get()) != 1) {
    ERR_clear_error();
    return BadFileError(key_file,
                        fmt::format("holds a key that does not match the first certificate ({}) of "
                                    "{}",
                                    SubjectOf(own), cert_file.Name()));
  }
  material.expiry_unix_s = ExpiryOf(own);
  for (const Certificate& certificate : *certificates) {
    absl::Status status = CheckValidity(cert_file, certificate.get(), now_unix_s);
    if (!status.ok()) return status;
    material.expiry_unix_s = std::min(material.expiry_unix_s, ExpiryOf(certificate.get()));
  }
  material.subject = SubjectOf(own);
  material.serial = SerialOf(own);
  const auto identity = PemOf(*certificates, key->get());
  if (!identity.ok()) return identity.status();
  material.identity_pem = *identity;
  return CheckAccepted(cert_file, own, key->get());
}

// Some certificates of a bundle may have expired: an old CA beside the new one.
absl::Status LoadCa(const TlsFiles& files, int64_t now_unix_s, TlsMaterial& material) {
  if (files.ca.empty()) return absl::OkStatus();
  NamedFile file{"tls_ca_file", files.ca, ""};
  absl::Status status = Read(file);
  if (!status.ok()) return status;
  const auto certificates = ParseCertificates(file);
  if (!certificates.ok()) return certificates.status();
  const X509* last = certificates->front().get();
  for (const Certificate& certificate : *certificates) {
    if (ExpiryOf(certificate.get()) > ExpiryOf(last)) last = certificate.get();
  }
  status = CheckValidity(file, last, now_unix_s);
  if (!status.ok()) return status;
  material.ca_expiry_unix_s = ExpiryOf(last);
  auto pem = PemOf(*certificates, nullptr);
  if (!pem.ok()) return pem.status();
  material.ca_pem = *std::move(pem);
  return absl::OkStatus();
}

}  // namespace

std::string FormatUtc(int64_t unix_s) {
  const std::time_t seconds = unix_s;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text.data(), length};
}

absl::StatusOr<TlsMaterial> LoadTlsMaterial(const TlsFiles& files, int64_t now_unix_s) {
  ERR_clear_error();
  TlsMaterial material;
  absl::Status status = LoadIdentity(files, now_unix_s, material);
  if (status.ok()) status = LoadCa(files, now_unix_s, material);
  if (!status.ok()) return status;
  return material;
}

}  // namespace lodgekv::server
