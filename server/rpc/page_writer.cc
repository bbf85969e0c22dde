#include "server/rpc/page_writer.h"

#include <grpc/slice.h>

#include <algorithm>
#include <utility>

#include "lodgekv/v1/kv.pb.h"
#include "server/rpc/wire_writer.h"

namespace lodgekv::server {
namespace {

// Of memory for items: a page of a hundred small ones fits into one piece.
constexpr size_t kPieceBytes = 16 * 1024;

size_t ContentBytes(const ScanItem& item, std::string_view value) {
  return wire::TextBytes(item.key) + wire::TextBytes(value) + wire::NumberBytes(item.version) +
         wire::ExpiryBytes(item.expiry_unix_ms);
}

uint8_t* Begin(const grpc::Slice& slice) { return const_cast<uint8_t*>(slice.begin()); }

}  // namespace

void PageWriter::Add(const ScanItem& item, bool keys_only) {
  const std::string_view value = keys_only ? std::string_view() : std::string_view(item.value);
  const size_t content = ContentBytes(item, value);
  wire::FieldWriter writer(Room(wire::NestedBytes(content)));
  writer.BeginNested(v1::ScanResponse::kItemsFieldNumber, content);
  writer.Text(v1::ScanItem::kKeyFieldNumber, item.key);
  last_key_ = {reinterpret_cast<const char*>(writer.end()) - item.key.size(), item.key.size()};
  writer.Text(v1::ScanItem::kValueFieldNumber, value);
  writer.Number(v1::ScanItem::kVersionFieldNumber, item.version);
  writer.Expiry(v1::ScanItem::kExpireTimeFieldNumber, item.expiry_unix_ms);
  ++items_;
}

void PageWriter::SetContinuation(std::string_view key) {
  wire::FieldWriter writer(Room(wire::TextBytes(key)));
  writer.Text(v1::ScanResponse::kContinuationFieldNumber, key);
}

grpc::ByteBuffer PageWriter::Take() {
  EndPiece();
  grpc::ByteBuffer page(pieces_.data(), pieces_.size());
  pieces_.clear();
  items_ = 0;
  last_key_ = {};
  return page;
}

// The next so many bytes, in one piece.
uint8_t* PageWriter::Room(size_t bytes) {
  if (piece_.size() - used_ < bytes) {
    EndPiece();
    piece_ = grpc::Slice(grpc_slice_malloc(std::max(bytes, kPieceBytes)), grpc::Slice::STEAL_REF);
  }
  return Begin(piece_) + std::exchange(used_, used_ + bytes);
}

void PageWriter::EndPiece() {
  if (used_ != 0) pieces_.push_back(piece_.sub(0, used_));
  piece_ = grpc::Slice();
  used_ = 0;
}

}  // namespace lodgekv::server
