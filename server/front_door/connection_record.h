// What the front door knows about one connection, and what it concludes: how many bytes of it have
// not become a request, how often it resets streams, how many of its requests are refused because
// of their content, whether it is stalled, whether it may be closed in favour of another. Numbers
// and times only: no socket, no thread.
//
// Bytes are counted because gRPC 1.51 buffers any amount of header blocks and announced messages
// before it calls us. unfinished() is the number of bytes read from the socket, less those of
// complete requests and an allowance for frames and headers; 0 whenever the messages of all streams
// have been received, and no session may have begun another one. A session counts as a stream whose
// message has been received.
//
// INVARIANT  A client that sends complete and valid requests and reads their answers, at any rate
//            and with up to max_streams of them at a time, never commits an offence.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "server/front_door/stream_counts.h"
#include "server/front_door/watched_socket.h"

namespace lodgekv::server {

using DoorTime = std::chrono::steady_clock::time_point;

// Of a port; read again at each check, so that a reload applies.
struct ConnectionLimits {
  uint64_t max_streams = 0;
  uint64_t max_message_size = 0;
  uint64_t max_unfinished_size = 0;
  uint64_t resets_per_second = 0;
  uint64_t invalid_bytes_per_second = 0;
  std::chrono::milliseconds message_timeout{0};  // 0: none
};

// Of requests and messages of sessions received completely, since the connection was accepted.
struct RequestBytes {
  uint64_t all = 0;
  // Of those refused because of their content: their size on the wire or in memory, whichever is
  // larger.
  uint64_t invalid = 0;
};

// Streams with any number of messages, since the connection was accepted.
struct SessionCounts {
  uint64_t begun = 0;
  uint64_t open = 0;
  uint64_t messages = 0;  // received completely
};

enum class EndReason { kMadeRoom, kUnfinished, kLargest, kResets, kFrames, kInvalid, kStalled };

class ConnectionRecord {
 public:
  explicit ConnectionRecord(DoorTime accepted)
      : accepted_(accepted),
        checked_(accepted),
        streams_asked_(accepted),
        last_stream_end_(accepted),
        progress_(accepted) {}

  // Whether to read the streams' counts, given the state of the socket.
  bool WantsStreams(const SocketUse& use, DoorTime now) const;

  // Records one check. streams: if they were read, and the connection has got as far as HTTP/2.
  void Note(const SocketUse& use, const std::optional<StreamCounts>& streams,
            const RequestBytes& requests, const SessionCounts& sessions,
            const ConnectionLimits& limits, DoorTime now);

  // According to the last check.
  std::optional<EndReason> Offence(const ConnectionLimits& limits, DoorTime now) const;

  uint64_t unfinished() const { return unfinished_; }
  DoorTime accepted() const { return accepted_; }
  bool silent() const { return use_.bytes_read == 0; }
  bool has_asked() const { return streams_ && streams_->started > 0; }
  bool has_transport() const { return streams_.has_value(); }
  // Since when no stream has been open but sessions without messages; nothing while one is.
  std::optional<DoorTime> idle_since() const;

 private:
  static constexpr double kForgivable = 64.0 * (1 << 20);  // bytes

  void NoteInvalid(uint64_t bytes, const ConnectionLimits& limits, double seconds);
  void NoteStreams(const StreamCounts& now_counts, const ConnectionLimits& limits, DoorTime now);
  uint64_t CreditForFailed(uint64_t failed, const ConnectionLimits& limits, double seconds);
  uint64_t UnfinishedStreams() const;
  uint64_t UnfinishedLimit(const ConnectionLimits& limits) const;

  const DoorTime accepted_;
  DoorTime checked_;
  SocketUse use_;
  RequestBytes requests_;
  SessionCounts sessions_;
  double invalid_over_ = 0;  // bytes
  uint64_t unfinished_ = 0;

  std::optional<StreamCounts> streams_;
  DoorTime streams_asked_;
  uint64_t read_when_asked_ = 0;
  // Streams that ended before their message was received, as of the last time when none was open.
  uint64_t without_message_ = 0;
  DoorTime last_stream_end_;  // or message of a session
  // Bytes of cancelled uploads never become a request; so many of them may still be deducted.
  double forgivable_ = kForgivable;
  uint64_t resets_seen_ = 0;
  double resets_over_ = 0;

  // Since when no message and hardly a byte was received.
  DoorTime progress_;
  uint64_t read_at_progress_ = 0;
  uint64_t messages_at_progress_ = 0;
};

}  // namespace lodgekv::server
