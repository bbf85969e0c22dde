// The name that gRPC gives the other end of a connection, by which calls find it.
#pragma once

#include <sys/socket.h>

#include <string>

namespace lodgekv::server {

// "ipv4:192.0.2.1:4711", "ipv6:%5B2001:db8::1%5D:4711", "unix:". An IPv4 address that an IPv6
// socket saw is named as what it is.
std::string PeerName(const sockaddr_storage& address);

}  // namespace lodgekv::server
