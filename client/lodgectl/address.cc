#include "client/lodgectl/address.h"

#include <algorithm>
#include <array>

namespace lodgekv::lodgectl {
namespace {

// As defined by gRPC.
constexpr std::array<std::string_view, 6> kSchemes{
    "unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:", "vsock:"};

bool HasScheme(std::string_view address) {
  return address.find("://") != std::string_view::npos ||
         std::any_of(kSchemes.begin(), kSchemes.end(), [&](std::string_view scheme) {
           return address.substr(0, scheme.size()) == scheme;
         });
}

}  // namespace

std::string WithPort(const std::string& address, std::string_view usual) {
  if (address.empty() || HasScheme(address)) return address;
  const std::string port(usual.substr(usual.rfind(':') + 1));
  const auto colons = std::count(address.begin(), address.end(), ':');
  if (address.front() == '[') return address.back() == ']' ? address + ":" + port : address;
  if (colons > 1) return "[" + address + "]:" + port;
  if (address.back() == ':') return address + port;
  return colons == 0 ? address + ":" + port : address;
}

}  // namespace lodgekv::lodgectl
