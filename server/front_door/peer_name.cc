#include "server/front_door/peer_name.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace lodgekv::server {
namespace {

std::string Text(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(family, address, text.data(), text.size()) != nullptr ? text.data() : "";
}

}  // namespace

std::string PeerName(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return fmt::format("ipv4:{}:{}", Text(AF_INET, &ipv4.sin_addr), ntohs(ipv4.sin_port));
  }
  if (address.ss_family != AF_INET6) return "unix:";
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
  const uint16_t port = ntohs(ipv6.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) {
    return fmt::format("ipv4:{}:{}", Text(AF_INET, &ipv6.sin6_addr.s6_addr[12]), port);
  }
  const std::string host = Text(AF_INET6, &ipv6.sin6_addr);
  // A link-local address has a scope after a %, which a URI escapes once more.
  if (ipv6.sin6_scope_id != 0) {
    return fmt::format("ipv6:%5B{}%25{}%5D:{}", host, ipv6.sin6_scope_id, port);
  }
  return fmt::format("ipv6:%5B{}%5D:{}", host, port);
}

std::string PeerNetwork(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return Text(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  }
  if (address.ss_family != AF_INET6) return {};
  in6_addr network = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&network)) return Text(AF_INET, &network.s6_addr[12]);
  std::fill(std::begin(network.s6_addr) + 8, std::end(network.s6_addr), uint8_t{0});
  return Text(AF_INET6, &network) + "/64";
}

}  // namespace lodgekv::server
