// The blocks of headers that are being received: how much each has taken, and whether that is more
// than a client that means well needs. A block is what a HEADERS frame begins and the CONTINUATION
// frames after it go on with; its parser gets it in pieces.
//
// gRPC 1.51 keeps what it has of a header that is not complete, copies all of it for each further
// piece, and looks at its limit of 8 KiB only when the header is complete (CVE-2023-33953): pieces
// of a byte, after 8 MB, cost 10 bytes of traffic and milliseconds each of the thread that waits
// for all sockets. So there are two limits: of a block's size, and of what its pieces cost. What
// comes of a block beyond them is not parsed: the front door ends the connection for its bytes, as
// an offence of its peer. Should the block end before, the connection does, for the table of
// headers that both sides keep is no longer the same.
//
// INVARIANT  Holds no parser that is not within a block.
// Thread safety: any thread, each parser one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "server/base/limits.h"

namespace lodgekv::server {

class HeaderBlocks {
 public:
  enum class Piece {
    kParse,
    kDrop,  // of a block that is larger than it may be
    kEnd,   // the last one of such a block
  };

  // Of a block as it is sent. gRPC answers a request with more metadata than kMaxMetadataSize; this
  // is what it may read before it can.
  static constexpr uint64_t kMaxSize = 8 * kMaxMetadataSize;
  // Of the sizes that a block had with each of its pieces, together: at worst so much is copied.
  // Headers of 8 KiB may come in pieces of 50 bytes.
  static constexpr uint64_t kMaxCost = kMiB;

  // A frame of the block at this parser begins; whether it is the block's last one.
  void BeginFrame(const void* parser, bool last_of_block);

  // What to do with a piece of so many bytes. `frame_ends`: it is the last one of its frame.
  Piece Add(const void* parser, uint64_t bytes, bool frame_ends);

  // The parser exists no longer.
  void Forget(const void* parser);

  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // Blocks that were larger than they may be, since the process began.
  uint64_t too_large() const { return too_large_.load(std::memory_order_relaxed); }

 private:
  struct Block {
    bool goes_on = false;  // after this frame
    uint64_t bytes = 0;
    uint64_t cost = 0;

    bool is_too_large() const { return bytes > kMaxSize || cost > kMaxCost; }
  };

  void Note() { size_.store(blocks_.size(), std::memory_order_relaxed); }

  std::mutex mutex_;
  absl::flat_hash_map<const void*, Block> blocks_;
  // Most blocks come in one piece: then there is nothing to keep, and no lock to take. Who parses a
  // block in several has seen its own change of this number.
  std::atomic<size_t> size_{0};
  std::atomic<uint64_t> too_large_{0};
};

}  // namespace lodgekv::server
