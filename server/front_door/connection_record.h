// What the front door knows of one connection, and what it concludes: how many bytes of it have not
// become a request, how often it resets streams, how much it asks that is refused for what is in
// it, whether it stands still, whether it may go for another. Of numbers and times alone: no
// socket, no thread.
//
// Bytes are counted, since gRPC 1.51 holds any amount of header blocks and announced messages
// before it calls us. unfinished() is what was read of the socket, less what became requests and
// an allowance for frames and headers; 0 whenever every stream's message is here.
//
// INVARIANT  Whoever sends whole and valid requests and takes their answers, at any rate and with
//            up to max_streams of them at a time, is never judged an offender.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "server/front_door/stream_counts.h"
#include "server/front_door/watched_socket.h"

namespace lodgekv::server {

using DoorTime = std::chrono::steady_clock::time_point;

// Of a port; read anew at each look, so that a reload applies.
struct ConnectionLimits {
  uint64_t max_streams = 0;
  uint64_t max_message_size = 0;
  uint64_t max_unfinished_size = 0;
  uint64_t resets_per_second = 0;
  uint64_t invalid_bytes_per_second = 0;
  std::chrono::milliseconds message_timeout{0};  // 0: none
};

// Of requests that have come whole, since a connection was accepted.
struct RequestBytes {
  uint64_t all = 0;
  // Of those that were refused for what is in them; in memory, where that is more.
  uint64_t invalid = 0;
};

enum class EndReason { kMadeRoom, kUnfinished, kLargest, kResets, kInvalid, kStalled };

class ConnectionRecord {
 public:
  explicit ConnectionRecord(DoorTime accepted)
      : accepted_(accepted),
        looked_(accepted),
        streams_asked_(accepted),
        last_stream_end_(accepted),
        progress_(accepted) {}

  // Whether the streams' counts are worth asking for, after a look at the socket.
  bool WantsStreams(const SocketUse& use, DoorTime now) const;

  // A look. streams: when they were asked for, and the connection has got as far as HTTP/2.
  void Note(const SocketUse& use, const std::optional<StreamCounts>& streams,
            const RequestBytes& requests, const ConnectionLimits& limits, DoorTime now);

  // By the last look.
  std::optional<EndReason> Offence(const ConnectionLimits& limits, DoorTime now) const;

  uint64_t unfinished() const { return unfinished_; }
  DoorTime accepted() const { return accepted_; }
  bool silent() const { return use_.bytes_read == 0; }
  bool has_asked() const { return streams_ && streams_->started > 0; }
  bool has_transport() const { return streams_.has_value(); }
  // Without an open stream, since when; nothing while it has one.
  std::optional<DoorTime> idle_since() const;

 private:
  static constexpr double kForgivable = 64.0 * (1 << 20);  // bytes

  void NoteInvalid(uint64_t bytes, const ConnectionLimits& limits, double seconds);
  void NoteStreams(const StreamCounts& now_counts, const ConnectionLimits& limits, DoorTime now);
  uint64_t CreditForFailed(uint64_t failed, const ConnectionLimits& limits, double seconds);
  uint64_t UnfinishedStreams() const;
  uint64_t UnfinishedLimit(const ConnectionLimits& limits) const;

  const DoorTime accepted_;
  DoorTime looked_;
  SocketUse use_;
  RequestBytes requests_;
  double invalid_over_ = 0;  // bytes
  uint64_t unfinished_ = 0;

  std::optional<StreamCounts> streams_;
  DoorTime streams_asked_;
  uint64_t read_when_asked_ = 0;
  // Streams that ended before their message had come, as of when none was open.
  uint64_t without_message_ = 0;
  DoorTime last_stream_end_;
  // Of cancelled uploads, whose bytes are nobody's any more: so many may still be forgiven.
  double forgivable_ = kForgivable;
  uint64_t resets_seen_ = 0;
  double resets_over_ = 0;

  // Since when no message came and hardly a byte.
  DoorTime progress_;
  uint64_t read_at_progress_ = 0;
  uint64_t messages_at_progress_ = 0;
};

}  // namespace lodgekv::server
