// The name that gRPC gives the other end of a connection, by which calls find it.
#pragma once

#include <sys/socket.h>

#include <string>

namespace lodgekv::server {

// "ipv4:192.0.2.1:4711", "ipv6:%5B2001:db8::1%5D:4711", "unix:". An IPv4 address that arrives at an
// IPv6 socket is named as an IPv4 address.
std::string PeerName(const sockaddr_storage& address);

// The owner of the address as far as an address identifies one: "192.0.2.1"; for IPv6 the network,
// since all its addresses belong to one customer: "2001:db8:0:7::/64". Empty for a Unix socket.
std::string PeerNetwork(const sockaddr_storage& address);

}  // namespace lodgekv::server
