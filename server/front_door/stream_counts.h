// How many streams the clients of a gRPC server have opened, and how they ended. gRPC itself
// answers calls that never reach our code (unknown methods, reflection, health), and counts them
// for channelz alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace lodgekv::server {

struct StreamCounts {
  uint64_t started = 0;
  uint64_t succeeded = 0;  // the server sent its answer, which may be an error
  uint64_t failed = 0;     // reset, or ended by the end of the connection
  uint64_t messages = 0;   // received completely

  uint64_t open() const {
    const uint64_t ended = succeeded + failed;
    return started > ended ? started - ended : 0;
  }
};

// Of a connection, by its number in channelz. Nothing if it is closed.
std::optional<StreamCounts> ReadStreamCounts(intptr_t socket);

// The connections of a server with numbers from `first` on, with their peers as gRPC names them.
void VisitServerSockets(intptr_t server, intptr_t first,
                        const std::function<void(intptr_t socket, std::string_view peer)>& visit);

// The numbers of all servers in the process.
std::vector<intptr_t> ListChannelzServers();

}  // namespace lodgekv::server
