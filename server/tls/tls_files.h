// Where the operator's TLS files are.
#pragma once

#include <string>

namespace lodgekv::server {

// Paths of PEM files. Without `ca` clients need no certificate.
struct TlsFiles {
  std::string cert;
  std::string key;
  std::string ca;
};

}  // namespace lodgekv::server
