#include "server/front_door/header_blocks.h"

namespace lodgekv::server {

void HeaderBlocks::BeginFrame(const void* parser, bool last_of_block) {
  if (last_of_block && size() == 0) return;
  const std::lock_guard lock(mutex_);
  if (last_of_block) {
    const auto found = blocks_.find(parser);
    if (found != blocks_.end()) found->second.goes_on = false;
  } else {
    blocks_[parser].goes_on = true;
  }
  Note();
}

HeaderBlocks::Piece HeaderBlocks::Add(const void* parser, uint64_t bytes, bool frame_ends) {
  if (frame_ends && size() == 0) return Piece::kParse;
  const std::lock_guard lock(mutex_);
  Block& block = blocks_[parser];
  const bool was_too_large = block.is_too_large();
  block.bytes += bytes;
  block.cost += block.bytes;
  const bool too_large = block.is_too_large();
  if (too_large && !was_too_large) too_large_.fetch_add(1, std::memory_order_relaxed);
  const bool block_ends = frame_ends && !block.goes_on;
  if (block_ends) blocks_.erase(parser);
  Note();
  if (!too_large) return Piece::kParse;
  return block_ends ? Piece::kEnd : Piece::kDrop;
}

void HeaderBlocks::Forget(const void* parser) {
  if (size() == 0) return;
  const std::lock_guard lock(mutex_);
  blocks_.erase(parser);
  Note();
}

}  // namespace lodgekv::server
