// How many streams the clients of a gRPC server have opened and how many of them ended well: gRPC
// itself answers calls that never reach our code (unknown methods, reflection, health), and counts
// them for channelz alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace lodgekv::server {

struct StreamCounts {
  uint64_t started = 0;
  uint64_t succeeded = 0;  // the server's answer went out, an error too
  uint64_t failed = 0;     // reset, or cut by the end of the connection
  uint64_t messages = 0;   // that came whole

  uint64_t open() const {
    const uint64_t ended = succeeded + failed;
    return started > ended ? started - ended : 0;
  }
};

// Of a connection, by the number that channelz gives it. Nothing when it is gone.
std::optional<StreamCounts> ReadStreamCounts(intptr_t socket);

// The connections of a server from number `first` on, with their peers as gRPC names them.
void VisitServerSockets(intptr_t server, intptr_t first,
                        const std::function<void(intptr_t socket, std::string_view peer)>& visit);

// The numbers of all servers in the process.
std::vector<intptr_t> ListChannelzServers();

}  // namespace lodgekv::server
