#include "client/lodgectl/address.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace lodgekv::lodgectl {
namespace {

// As defined by gRPC.
constexpr std::string_view kNames = "dns:";
constexpr std::array<std::string_view, 6> kSchemes{"unix:", "unix-abstract:", kNames,
                                                   "ipv4:", "ipv6:",          "vsock:"};

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
  const bool bracketed = address.front() == '[';
  if (colons > 1 && !bracketed) return "[" + address + "]:" + port;
  if (address.back() == ':') return address + port;
  if (bracketed) return address.back() == ']' ? address + ":" + port : address;
  return colons == 0 ? address + ":" + port : address;
}

bool HasImpossiblePort(std::string_view address) {
  const bool by_name = address.substr(0, kNames.size()) == kNames;
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || (HasScheme(address) && !by_name)) return false;
  const std::string_view port = address.substr(colon + 1);
  if (port.empty() || port.find_first_not_of("0123456789") != std::string_view::npos) return false;
  uint16_t number;
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  return parsed.ec != std::errc();
}

}  // namespace lodgekv::lodgectl
