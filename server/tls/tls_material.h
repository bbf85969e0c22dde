// What TLS needs, read from the operator's files and checked as a whole: the certificates, the key
// that matches them, and the CA of the clients.
//
// INVARIANT  What LoadTlsMaterial returns was valid at the time given, and the TLS library accepts
//            it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tls/tls_files.h"

namespace lodgekv::server {

struct TlsMaterial {
  std::string identity_pem;      // the key, then its certificate and the rest of the chain
  std::string ca_pem;            // empty: clients need no certificate
  std::string subject;           // of the server's certificate
  std::string serial;            // hexadecimal
  int64_t expiry_unix_s = 0;     // of the first of the server's certificates to expire
  int64_t ca_expiry_unix_s = 0;  // of the last of the CA certificates to expire; 0: none
  std::vector<std::string> warnings;
};

// Errors name the field, the file, what is wrong and what would be right.
absl::StatusOr<TlsMaterial> LoadTlsMaterial(const TlsFiles& files, int64_t now_unix_s);

// As 2026-01-31T23:59:59Z.
std::string FormatUtc(int64_t unix_s);

}  // namespace lodgekv::server
