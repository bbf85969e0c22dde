#include "server/front_door/frame_guard.h"

#include <grpc/slice.h>
#include <grpcpp/version_info.h>

#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/front_door/control_frames.h"
#include "server/front_door/of_library.h"

namespace lodgekv::server {
namespace {

// Nobody takes them where there is no front door.
constexpr size_t kMostKept = 4'096;

struct Floods {
  ControlFrames frames;
  std::mutex mutex;
  std::vector<std::string> names;
};

// Never destroyed: gRPC's threads may outlive main.
Floods& TheFloods() {
  static Floods& floods = *new Floods;
  return floods;
}

}  // namespace

std::vector<std::string> TakeFloodingConnections() {
  Floods& floods = TheFloods();
  const std::lock_guard lock(floods.mutex);
  return std::exchange(floods.names, {});
}

}  // namespace lodgekv::server

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51

// Declared by gRPC in headers that it does not install.
struct grpc_transport;
struct grpc_endpoint;
grpc_endpoint* grpc_transport_get_endpoint(grpc_transport* transport);
absl::string_view grpc_endpoint_get_peer(grpc_endpoint* endpoint);

// No members here: we make none. It begins with a grpc_transport.
struct grpc_chttp2_transport {
  ~grpc_chttp2_transport();
};
absl::Status grpc_chttp2_perform_read(grpc_chttp2_transport* transport, const grpc_slice& piece);

namespace {

using lodgekv::server::ControlFrames;
using lodgekv::server::OfLibrary;
using lodgekv::server::TheFloods;

void NoteFlood(grpc_chttp2_transport* transport) {
  auto& floods = TheFloods();
  grpc_endpoint* endpoint =
      grpc_transport_get_endpoint(reinterpret_cast<grpc_transport*>(transport));
  const std::lock_guard lock(floods.mutex);
  if (endpoint == nullptr || floods.names.size() >= lodgekv::server::kMostKept) return;
  floods.names.emplace_back(grpc_endpoint_get_peer(endpoint));
}

}  // namespace

absl::Status grpc_chttp2_perform_read(grpc_chttp2_transport* transport, const grpc_slice& piece) {
  using ReadOfLibrary = absl::Status (*)(grpc_chttp2_transport*, const grpc_slice&);
  static const auto read = OfLibrary<ReadOfLibrary>(
      "_Z24grpc_chttp2_perform_readP21grpc_chttp2_transportRK10grpc_slice");
  const ControlFrames::Verdict verdict =
      TheFloods().frames.Add(transport, {GRPC_SLICE_START_PTR(piece), GRPC_SLICE_LENGTH(piece)});
  if (verdict == ControlFrames::Verdict::kFew) return read(transport, piece);
  if (verdict == ControlFrames::Verdict::kTooMany) NoteFlood(transport);
  return absl::ResourceExhaustedError("too many frames that belong to no request");
}

grpc_chttp2_transport::~grpc_chttp2_transport() {
  using DestroyOfLibrary = void (*)(grpc_chttp2_transport*);
  static const auto destroy = OfLibrary<DestroyOfLibrary>("_ZN21grpc_chttp2_transportD1Ev");
  TheFloods().frames.Forget(this);
  destroy(this);
}

#endif
