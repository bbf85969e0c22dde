#include "server/front_door/connection_record.h"

#include <algorithm>

#include "server/base/limits.h"

namespace lodgekv::server {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

// Reading the counts costs about 20 us. A client needs so many bytes for some 500 resets.
constexpr uint64_t kAskAfterBytes = 16 * kKiB;
constexpr milliseconds kAskAfter{1'000};

// Before HTTP/2: many times the size of a client's certificate chain.
constexpr uint64_t kHandshakeSize = 256 * kKiB;
// Besides messages: frames and headers being received.
constexpr uint64_t kSlack = kMiB;
constexpr uint64_t kStreamOverhead = 64 * kKiB;

// What a complete request adds to its own bytes: headers, frames, TLS records.
constexpr uint64_t kAllowancePerStream = 2 * kKiB;
// A message of a session has no headers.
constexpr uint64_t kAllowancePerMessage = 64;
constexpr uint64_t kFramingShare = 32;  // one byte per so many
// A client that receives data sends window updates and pings.
constexpr uint64_t kReturnShare = 8;
constexpr double kAllowancePerSecond = 4.0 * kKiB;
// How fast kForgivable is replenished.
constexpr double kForgivablePerSecond = 1.0 * kMiB;

constexpr double kResetBurstSeconds = 5;
constexpr double kInvalidBurstSeconds = 2;
// A slower upload counts as stalled.
constexpr double kLeastBytesPerSecond = 1.0 * kKiB;

double Seconds(DoorTime from, DoorTime to) { return duration<double>(to - from).count(); }

uint64_t Less(uint64_t from, uint64_t amount) { return from > amount ? from - amount : 0; }

}  // namespace

bool ConnectionRecord::WantsStreams(const SocketUse& use, DoorTime now) const {
  if (use.bytes_read == 0) return false;
  if (use.bytes_read - read_when_asked_ >= kAskAfterBytes || unfinished_ >= kAskAfterBytes) {
    return true;
  }
  // An open stream may end, or stall, without another byte.
  const bool may_change = use.bytes_read != read_when_asked_ || !streams_ || streams_->open() > 0;
  return may_change && now - streams_asked_ >= kAskAfter;
}

void ConnectionRecord::Note(const SocketUse& use, const std::optional<StreamCounts>& streams,
                            const RequestBytes& requests, const SessionCounts& sessions,
                            const ConnectionLimits& limits, DoorTime now) {
  const double seconds = Seconds(checked_, now);
  unfinished_ += use.bytes_read - use_.bytes_read;
  const uint64_t whole = requests.all - requests_.all;
  const auto allowance = static_cast<uint64_t>(seconds * kAllowancePerSecond);
  unfinished_ =
      Less(unfinished_, whole + whole / kFramingShare + allowance +
                            (sessions.messages - sessions_.messages) * kAllowancePerMessage +
                            (use.bytes_sent - use_.bytes_sent) / kReturnShare);
  NoteInvalid(requests.invalid - requests_.invalid, limits, seconds);
  use_ = use;
  if (sessions.messages != sessions_.messages || sessions.begun != sessions_.begun) {
    last_stream_end_ = now;
  }
  requests_ = requests;
  sessions_ = sessions;
  checked_ = now;
  if (streams) NoteStreams(*streams, limits, now);
  const double read = static_cast<double>(use.bytes_read - read_at_progress_);
  const bool moves = read >= kLeastBytesPerSecond * Seconds(progress_, now) && read > 0;
  const uint64_t messages = streams_ ? streams_->messages : 0;
  if (!moves && messages == messages_at_progress_ && UnfinishedStreams() > 0) return;
  progress_ = now;
  read_at_progress_ = use.bytes_read;
  messages_at_progress_ = messages;
}

void ConnectionRecord::NoteInvalid(uint64_t bytes, const ConnectionLimits& limits, double seconds) {
  const double rate = static_cast<double>(limits.invalid_bytes_per_second);
  invalid_over_ = std::max(0.0, invalid_over_ - rate * seconds) + static_cast<double>(bytes);
}

void ConnectionRecord::NoteStreams(const StreamCounts& given, const ConnectionLimits& limits,
                                   DoorTime now) {
  StreamCounts counts = given;
  counts.messages = Less(counts.messages + sessions_.begun, sessions_.messages);
  const StreamCounts before = streams_.value_or(StreamCounts{});
  const double seconds = Seconds(streams_ ? streams_asked_ : accepted_, now);
  const bool busy = before.open() > sessions_.open;
  if (busy || counts.started != before.started || !streams_) last_stream_end_ = now;
  streams_ = counts;
  streams_asked_ = now;
  read_when_asked_ = use_.bytes_read;
  if (counts.open() == 0) without_message_ = Less(counts.started, counts.messages);
  unfinished_ =
      Less(unfinished_, (counts.succeeded - before.succeeded) * kAllowancePerStream +
                            CreditForFailed(counts.failed - before.failed, limits, seconds));
  if (UnfinishedStreams() == 0 && sessions_.open == 0) unfinished_ = 0;
  // gRPC keeps a reset stream open until its call has been processed; likewise an answered one, but
  // its message was received. The counts are not read at one moment: there may be more messages
  // than started streams.
  const uint64_t resets =
      std::max(counts.failed, Less(Less(counts.started, counts.messages), limits.max_streams));
  const double rate = static_cast<double>(limits.resets_per_second);
  resets_over_ = std::max(0.0, resets_over_ - rate * seconds) +
                 static_cast<double>(Less(resets, resets_seen_));
  resets_seen_ = std::max(resets_seen_, resets);
}

uint64_t ConnectionRecord::CreditForFailed(uint64_t failed, const ConnectionLimits& limits,
                                           double seconds) {
  forgivable_ = std::min(kForgivable, forgivable_ + seconds * kForgivablePerSecond);
  const double wanted = std::min({static_cast<double>(failed * limits.max_message_size),
                                  static_cast<double>(unfinished_), forgivable_});
  forgivable_ -= wanted;
  return static_cast<uint64_t>(wanted);
}

uint64_t ConnectionRecord::UnfinishedStreams() const {
  if (!streams_) return 0;
  return std::min(streams_->open(),
                  Less(Less(streams_->started, streams_->messages), without_message_));
}

uint64_t ConnectionRecord::UnfinishedLimit(const ConnectionLimits& limits) const {
  if (!streams_) return kHandshakeSize;
  // One more than are open: gRPC refuses a message that is too large only after it has received it
  // completely, and an error answer is better than closing the connection with all its calls.
  const uint64_t possible = kSlack + sessions_.open * kStreamWindow +
                            (std::min(streams_->open(), limits.max_streams) + 1) *
                                (limits.max_message_size + kStreamOverhead);
  return std::min(limits.max_unfinished_size, possible);
}

std::optional<EndReason> ConnectionRecord::Offence(const ConnectionLimits& limits,
                                                   DoorTime now) const {
  if (unfinished_ > UnfinishedLimit(limits)) return EndReason::kUnfinished;
  const double burst = static_cast<double>(limits.resets_per_second) * kResetBurstSeconds;
  if (limits.resets_per_second != 0 && resets_over_ > burst) return EndReason::kResets;
  const double invalid = static_cast<double>(limits.invalid_bytes_per_second);
  if (invalid != 0 && invalid_over_ > invalid * kInvalidBurstSeconds) return EndReason::kInvalid;
  const bool waits = limits.message_timeout.count() != 0 && UnfinishedStreams() > 0;
  if (waits && now - progress_ > limits.message_timeout) return EndReason::kStalled;
  return std::nullopt;
}

std::optional<DoorTime> ConnectionRecord::idle_since() const {
  if (!streams_ || streams_->open() > sessions_.open) return std::nullopt;
  return last_stream_end_;
}

}  // namespace lodgekv::server
