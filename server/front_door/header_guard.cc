#include "server/front_door/header_guard.h"

#include <grpc/slice.h>
#include <grpcpp/version_info.h>

#include <cstdint>

#include "absl/status/status.h"
#include "server/front_door/header_blocks.h"
#include "server/front_door/of_library.h"

namespace lodgekv::server {
namespace {

// Never destroyed: gRPC's threads may outlive main.
HeaderBlocks& Blocks() {
  static HeaderBlocks& blocks = *new HeaderBlocks;
  return blocks;
}

}  // namespace

uint64_t TooLargeHeaderBlocks() { return Blocks().too_large(); }

}  // namespace lodgekv::server

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51

class grpc_metadata_batch;

namespace grpc_core {

// Declared by gRPC in a header that it does not install. No members here: we make none.
class HPackParser {
 public:
  enum class Boundary : uint8_t { kNone, kEndOfHeaders, kEndOfStream };  // with the frame
  enum class Priority : uint8_t { kNone, kIncluded };
  struct LogInfo {
    uint32_t stream_id;
    uint8_t type;
    bool is_client;
  };

  ~HPackParser();
  void BeginFrame(grpc_metadata_batch* metadata, uint32_t metadata_limit, Boundary boundary,
                  Priority priority, LogInfo log_info);
  absl::Status Parse(const grpc_slice& piece, bool frame_ends);
};

namespace {

using lodgekv::server::OfLibrary;
using BeginFrameOfLibrary = void (*)(HPackParser*, grpc_metadata_batch*, uint32_t,
                                     HPackParser::Boundary, HPackParser::Priority,
                                     HPackParser::LogInfo);
using ParseOfLibrary = absl::Status (*)(HPackParser*, const grpc_slice&, bool);
using DestroyOfLibrary = void (*)(HPackParser*);

}  // namespace

void HPackParser::BeginFrame(grpc_metadata_batch* metadata, uint32_t metadata_limit,
                             Boundary boundary, Priority priority, LogInfo log_info) {
  static const auto begin_frame = OfLibrary<BeginFrameOfLibrary>(
      "_ZN9grpc_core11HPackParser10BeginFrameEP19grpc_metadata_batchjNS0_8BoundaryENS0_8PriorityE"
      "NS0_7LogInfoE");
  lodgekv::server::Blocks().BeginFrame(this, boundary != Boundary::kNone);
  begin_frame(this, metadata, metadata_limit, boundary, priority, log_info);
}

absl::Status HPackParser::Parse(const grpc_slice& piece, bool frame_ends) {
  static const auto parse =
      OfLibrary<ParseOfLibrary>("_ZN9grpc_core11HPackParser5ParseERK10grpc_sliceb");
  using Piece = lodgekv::server::HeaderBlocks::Piece;
  switch (lodgekv::server::Blocks().Add(this, GRPC_SLICE_LENGTH(piece), frame_ends)) {
    case Piece::kParse: return parse(this, piece, frame_ends);
    case Piece::kDrop: return absl::OkStatus();
    case Piece::kEnd: break;
  }
  return absl::ResourceExhaustedError("the headers are far larger than the server takes");
}

HPackParser::~HPackParser() {
  static const auto destroy = OfLibrary<DestroyOfLibrary>("_ZN9grpc_core11HPackParserD1Ev");
  lodgekv::server::Blocks().Forget(this);
  destroy(this);
}

}  // namespace grpc_core

#endif
