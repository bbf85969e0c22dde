// The paths of the operator's TLS files.
#pragma once

#include <string>

namespace lodgekv::server {

// PEM files. Without `ca` clients need no certificate.
struct TlsFiles {
  std::string cert;
  std::string key;
  std::string ca;
};

}  // namespace lodgekv::server
