// The name that gRPC gives the other end of a connection, by which calls find it.
#pragma once

#include <sys/socket.h>

#include <string>

namespace lodgekv::server {

// "ipv4:192.0.2.1:4711", "ipv6:%5B2001:db8::1%5D:4711", "unix:". An IPv4 address that an IPv6
// socket saw is named as what it is.
std::string PeerName(const sockaddr_storage& address);

// Whom the address belongs to, as far as an address tells: "192.0.2.1"; of IPv6 the network, of
// which one customer has all addresses, "2001:db8:0:7::/64". Empty for a Unix socket.
std::string PeerNetwork(const sockaddr_storage& address);

}  // namespace lodgekv::server
