#include "client/connection_probe.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lodgekv::client {
namespace {

constexpr int kConnectSeconds = 2;
constexpr unsigned kConnectPollMs = 20;
constexpr timeval kAnswerTime{2, 0};
// gRPC's protocol, in ALPN format.
constexpr unsigned char kAlpn[] = {2, 'h', '2'};

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};

using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
using Connection = std::unique_ptr<SSL, Freer<SSL_free>>;

Bio Over(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Adds trusted certificates; returns their number.
int Trust(SSL_CTX* context, const std::string& pem) {
  const Bio bio = Over(pem);
  int count = 0;
  for (;; ++count) {
    const Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) break;
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate.get());
  }
  ERR_clear_error();
  return count;
}

std::string TimeOf(const ASN1_TIME* time) {
  const Bio bio(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(bio.get(), time);
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &text);
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : "an unknown time";
}

// Loads our own files into `context`; returns the error, or an empty string.
std::string UseOwn(SSL_CTX* context, const TlsOptions& tls) {
  if (Trust(context, tls.ca_pem) == 0) return "the CA file holds no certificate in PEM format";
  if (tls.cert_pem.empty()) return "";
  const Certificate own(PEM_read_bio_X509(Over(tls.cert_pem).get(), nullptr, nullptr, nullptr));
  if (own == nullptr) return "the client's certificate file holds no certificate in PEM format";
  char no_passphrase[] = "";
  const Key key(PEM_read_bio_PrivateKey(Over(tls.key_pem).get(), nullptr, nullptr, no_passphrase));
  if (key == nullptr) return "the client's key file holds no unencrypted private key";
  if (X509_check_private_key(own.get(), key.get()) != 1) {
    return "the client's key does not match its certificate";
  }
  if (X509_cmp_current_time(X509_get0_notAfter(own.get())) < 0) {
    return absl::StrCat("the client's certificate expired at ",
                        TimeOf(X509_get0_notAfter(own.get())));
  }
  SSL_CTX_use_certificate(context, own.get());
  SSL_CTX_use_PrivateKey(context, key.get());
  return "";
}

// Host without port and brackets.
std::string HostOf(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

Bio Dial(const std::string& address) {
  Bio bio(BIO_new_connect(address.c_str()));
  BIO_set_nbio(bio.get(), 1);
  if (BIO_do_connect_retry(bio.get(), kConnectSeconds, kConnectPollMs) != 1) return nullptr;
  int fd = -1;
  BIO_get_fd(bio.get(), &fd);
  BIO_socket_nbio(fd, 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kAnswerTime, sizeof(kAnswerTime));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kAnswerTime, sizeof(kAnswerTime));
  return bio;
}

// Set if the server asks for a certificate and there is none.
thread_local bool asked_for_certificate = false;

int NoCertificate(SSL*, X509**, EVP_PKEY**) {
  asked_for_certificate = true;
  return 0;
}

void ExpectName(SSL* connection, const std::string& name) {
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), name.c_str()) == 1) return;
  ERR_clear_error();
  SSL_set1_host(connection, name.c_str());
  SSL_set_tlsext_host_name(connection, name.c_str());
}

// A connection on which nothing was sent yet. Null: the server cannot be reached.
Connection Prepare(SSL_CTX* context, const std::string& address, const std::string& name) {
  SSL_CTX_set_client_cert_cb(context, &NoCertificate);
  SSL_CTX_set_alpn_protos(context, kAlpn, sizeof(kAlpn));
  Bio bio = Dial(address);
  if (bio == nullptr) return nullptr;
  Connection connection(SSL_new(context));
  SSL_set_bio(connection.get(), bio.get(), bio.get());
  bio.release();
  if (!name.empty()) ExpectName(connection.get(), name);
  asked_for_certificate = false;
  ERR_clear_error();
  return connection;
}

std::string ExplainServerCertificate(SSL* connection, const std::string& name) {
  const Certificate shown(SSL_get1_peer_certificate(connection));
  const long result = SSL_get_verify_result(connection);
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return shown != nullptr ? absl::StrCat(
                                    "the server's certificate, or that of its CA, expired "
                                    "(the server's is valid until ",
                                    TimeOf(X509_get0_notAfter(shown.get())), ")")
                              : "the server's certificate, or that of its CA, has expired";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return absl::StrCat("the server's certificate is not one for '", name,
                          "'; --tls-server-name sets the name to expect in it");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "the server's certificate was not issued by the CA given with --tls-ca";
    default:
      return absl::StrCat("the server's certificate is not accepted: ",
                          X509_verify_cert_error_string(result));
  }
}

std::string ExplainOwnCertificate(bool have_one) {
  if (!have_one && asked_for_certificate) {
    return "the server asks for a client's certificate: give --tls-cert and --tls-key";
  }
  if (!have_one) return "";
  return "the server does not accept the client's certificate: no CA that it trusts "
         "(tls_ca_file) issued it";
}

// While this object exists, a closed connection is reported as an error instead of raising a
// signal.
class IgnoreSigpipe {
 public:
  IgnoreSigpipe() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before_);
  }
  ~IgnoreSigpipe() { sigaction(SIGPIPE, &before_, nullptr); }
  IgnoreSigpipe(const IgnoreSigpipe&) = delete;
  IgnoreSigpipe& operator=(const IgnoreSigpipe&) = delete;

 private:
  struct sigaction before_ {};
};

std::string ExplainTls(const std::string& address, const TlsOptions& tls) {
  const Context context(SSL_CTX_new(TLS_client_method()));
  std::string own = UseOwn(context.get(), tls);
  if (!own.empty()) return own;
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const std::string name = tls.server_name.empty() ? HostOf(address) : tls.server_name;
  const Connection connection = Prepare(context.get(), address, name);
  if (connection == nullptr) return "";
  const bool shaken = SSL_connect(connection.get()) == 1;
  if (SSL_get_verify_result(connection.get()) != X509_V_OK) {
    return ExplainServerCertificate(connection.get(), name);
  }
  if (!shaken && SSL_get_current_cipher(connection.get()) == nullptr) {
    return "the server does not seem to speak TLS: leave out --tls-ca, or check the "
           "address";
  }
  char byte = 0;
  // With TLS 1.3 the server checks our certificate after our part of the handshake.
  if (shaken && SSL_read(connection.get(), &byte, 1) == 1) return "";
  return ExplainOwnCertificate(!tls.cert_pem.empty());
}

// The first line of `bytes`, as far as it is printable ASCII.
std::string Printable(std::string_view bytes) {
  const size_t end = std::min({bytes.size(), bytes.find_first_of("\r\n"), size_t{60}});
  std::string text;
  for (const char c : bytes.substr(0, end)) {
    text += absl::ascii_isprint(static_cast<unsigned char>(c)) ? c : '?';
  }
  return text;
}

// The answer to the begin of HTTP/2, to which every gRPC server sends its settings.
std::string ExplainForeign(const std::string& address) {
  constexpr std::string_view kBegin("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  constexpr size_t kFrameType = 3;
  constexpr char kSettings = 4;
  const Bio bio = Dial(address);
  if (bio == nullptr) return "";
  std::array<char, 256> buffer{};
  if (BIO_write(bio.get(), kBegin.data(), kBegin.size()) != static_cast<int>(kBegin.size())) {
    return "";
  }
  const int n = BIO_read(bio.get(), buffer.data(), buffer.size());
  if (n <= 0) return "";
  const std::string_view answer(buffer.data(), static_cast<size_t>(n));
  if (absl::StartsWith(absl::string_view(buffer.data(), answer.size()), "HTTP/")) {
    return absl::StrCat("what answers at ", address,
                        " speaks plain HTTP, as the metrics do, not gRPC: check the port");
  }
  if (answer.size() > kFrameType && answer[kFrameType] == kSettings) return "";
  return absl::StrCat("what answers at ", address, " speaks no gRPC, it says '", Printable(answer),
                      "': check the address");
}

std::string ExplainPlaintext(const std::string& address) {
  const Context context(SSL_CTX_new(TLS_client_method()));
  const Connection connection = Prepare(context.get(), address, "");
  if (connection == nullptr) return "";
  const bool shaken = SSL_connect(connection.get()) == 1;
  if (!shaken && SSL_get_current_cipher(connection.get()) == nullptr) {
    return ExplainForeign(address);
  }
  return absl::StrCat("the server speaks TLS, and this client did not: give --tls-ca",
                      asked_for_certificate ? ", --tls-cert and --tls-key" : "");
}

}  // namespace

std::string ExplainConnection(const std::string& address, const std::optional<TlsOptions>& tls) {
  if (absl::StartsWith(address, "unix:")) return "";
  const IgnoreSigpipe ignore_sigpipe;
  std::string text = tls ? ExplainTls(address, *tls) : ExplainPlaintext(address);
  ERR_clear_error();
  return text;
}

}  // namespace lodgekv::client
