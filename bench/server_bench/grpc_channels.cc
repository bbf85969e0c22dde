#include "bench/server_bench/grpc_channels.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace lodgekv::server_bench {

absl::Status CallFailed(std::string_view what, const grpc::Status& status) {
  return absl::UnavailableError(absl::StrCat(
      std::string(what), " failed: code ", int{status.error_code()}, ": ", status.error_message()));
}

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> ConnectChannels(
    const std::string& server, unsigned count) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (unsigned i = 0; i < count; ++i) {
    grpc::ChannelArguments arguments;
    // Otherwise channels to one address share a connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    auto channel = grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
    if (!channel->WaitForConnected(AnswerDeadline())) {
      return absl::UnavailableError(absl::StrCat("cannot connect to ", server));
    }
    channels.push_back(std::move(channel));
  }
  return channels;
}

}  // namespace lodgekv::server_bench
