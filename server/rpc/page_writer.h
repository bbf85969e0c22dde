// One page of a scan, a ScanResponse of kv.proto, written item by item into the memory that gRPC
// sends.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "index/engine.h"

namespace lodgekv::server {

class PageWriter {
 public:
  void Add(const ScanItem& item, bool keys_only);
  // Of the items of the page.
  uint64_t items() const { return items_; }
  // The key of the last one; valid until Take.
  std::string_view last_key() const { return last_key_; }
  // Once, after the items.
  void SetContinuation(std::string_view key);
  // The page; an empty one begins.
  grpc::ByteBuffer Take();

 private:
  uint8_t* Room(size_t bytes);
  void EndPiece();

  std::vector<grpc::Slice> pieces_;  // full ones
  grpc::Slice piece_;                // the one that is being filled
  size_t used_ = 0;                  // of piece_
  uint64_t items_ = 0;
  std::string_view last_key_;
};

}  // namespace lodgekv::server
