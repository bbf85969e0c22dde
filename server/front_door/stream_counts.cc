#include "server/front_door/stream_counts.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace lodgekv::server {
namespace {

using nlohmann::json;

// The library's text, which the caller must free.
json Parse(char* text) {
  const std::unique_ptr<char, decltype(&gpr_free)> owned(text, &gpr_free);
  if (text == nullptr) return json::object();
  json parsed = json::parse(text, nullptr, false);
  return parsed.is_object() ? parsed : json::object();
}

// In protobuf's JSON 64-bit numbers are strings, and are left out when they are 0.
int64_t NumberIn(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return 0;
  if (found->is_number()) return found->get<int64_t>();
  return found->is_string()
             ? std::strtoll(found->get_ref<const std::string&>().c_str(), nullptr, 10)
             : 0;
}

const json& Member(const json& object, const char* name) {
  static const json kNone = json::object();
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

// "chttp2 ipv4:192.0.2.1:4711": the peer comes after the last space.
std::string_view PeerIn(std::string_view name) { return name.substr(name.rfind(' ') + 1); }

}  // namespace

std::optional<StreamCounts> ReadStreamCounts(intptr_t socket) {
  const json answer = Parse(grpc_channelz_get_socket(socket));
  const json& data = Member(Member(answer, "socket"), "data");
  if (data.empty() && Member(answer, "socket").empty()) return std::nullopt;
  const auto count = [&](const char* name) { return static_cast<uint64_t>(NumberIn(data, name)); };
  return StreamCounts{.started = count("streamsStarted"),
                      .succeeded = count("streamsSucceeded"),
                      .failed = count("streamsFailed"),
                      .messages = count("messagesReceived")};
}

void VisitServerSockets(intptr_t server, intptr_t first,
                        const std::function<void(intptr_t socket, std::string_view peer)>& visit) {
  for (;;) {
    const json answer = Parse(grpc_channelz_get_server_sockets(server, first, 0));
    for (const json& reference : Member(answer, "socketRef")) {
      const auto socket = static_cast<intptr_t>(NumberIn(reference, "socketId"));
      first = socket + 1;
      const auto name = reference.find("name");
      if (name == reference.end() || !name->is_string()) continue;
      visit(socket, PeerIn(name->get_ref<const std::string&>()));
    }
    if (Member(answer, "socketRef").empty() || Member(answer, "end") == true) return;
  }
}

std::vector<intptr_t> ListChannelzServers() {
  std::vector<intptr_t> servers;
  intptr_t first = 0;
  for (;;) {
    const json answer = Parse(grpc_channelz_get_servers(first));
    for (const json& server : Member(answer, "server")) {
      servers.push_back(static_cast<intptr_t>(NumberIn(Member(server, "ref"), "serverId")));
      first = servers.back() + 1;
    }
    if (Member(answer, "server").empty() || Member(answer, "end") == true) return servers;
  }
}

}  // namespace lodgekv::server
