#include "bench/server_bench/http2_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "bench/server_bench/loopback.h"

namespace lodgekv::server_bench {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kFrameHeader = 9;
constexpr size_t kMessageHeader = 5;  // of gRPC: a flag and the size
constexpr size_t kReadBytes = 262'144;

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
};
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kAck = 1;
constexpr uint8_t kEndHeaders = 4;

constexpr uint8_t kInitialWindowSetting = 4;
constexpr uint32_t kLargestWindow = 0x7fffffff;
constexpr uint32_t kFirstWindow = 65'535;

uint32_t NumberAt(std::string_view bytes, size_t at, size_t size) {
  uint32_t number = 0;
  for (size_t i = 0; i < size; ++i) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  return number;
}

// A text of fewer than 127 bytes, after its length (RFC 7541 5.2).
std::string Text(std::string_view text) {
  return std::string(1, static_cast<char>(text.size())).append(text);
}

// A header that the server adds to its table (RFC 7541 6.2.1); `name` is an index there, or 0 and
// the name itself follows.
std::string Header(uint8_t name, std::string_view text, std::string_view value) {
  const std::string index(1, static_cast<char>(0x40 | name));
  return name == 0 ? index + Text(text) + Text(value) : index + Text(value);
}

// POST and http, of the static table.
constexpr std::string_view kMethodAndScheme = "\x83\x86";
// The four that the first call has put into the table.
constexpr std::string_view kLaterHeaders = "\x83\x86\xc1\xc0\xbf\xbe";

std::string FirstHeaders(std::string_view method) {
  return std::string(kMethodAndScheme) + Header(4, "", method) + Header(1, "", "127.0.0.1") +
         Header(0, "te", "trailers") + Header(31, "", "application/grpc");
}

}  // namespace

Http2Connection::~Http2Connection() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Http2Connection::Open(const sockaddr_in& address, std::string_view method) {
  const auto fd = ConnectTo(address);
  if (!fd.ok()) return fd.status();
  fd_ = *fd;
  first_headers_ = FirstHeaders(method);
  out_ = kPreface;
  constexpr size_t kSettingBytes = 6;
  BeginFrame(kSettingBytes, kSettings, 0, 0);
  out_ += '\0';
  out_ += static_cast<char>(kInitialWindowSetting);
  AddNumber(kLargestWindow);
  BeginFrame(sizeof(uint32_t), kWindowUpdate, 0, 0);
  AddNumber(kLargestWindow - kFirstWindow);
  return Send();
}

void Http2Connection::AddNumber(uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) out_ += static_cast<char>(number >> shift);
}

void Http2Connection::BeginFrame(size_t bytes, uint8_t type, uint8_t flags, uint32_t stream) {
  // Three bytes of the size, one of the type.
  AddNumber(static_cast<uint32_t>(bytes << 8 | type));
  out_ += static_cast<char>(flags);
  AddNumber(stream);
}

void Http2Connection::Call(std::string message) { waiting_.push_back(std::move(message)); }

void Http2Connection::AddHeaders(uint32_t stream) {
  const std::string_view headers = stream == 1 ? first_headers_ : kLaterHeaders;
  BeginFrame(headers.size(), kHeaders, kEndHeaders, stream);
  out_ += headers;
}

void Http2Connection::AddCall(std::string_view message) {
  const uint32_t stream = std::exchange(next_stream_, next_stream_ + 2);
  AddHeaders(stream);
  const size_t bytes = kMessageHeader + message.size();
  BeginFrame(bytes, kData, kEndStream, stream);
  out_ += '\0';
  AddNumber(static_cast<uint32_t>(message.size()));
  out_ += message;
  window_ -= static_cast<int64_t>(bytes);
}

absl::Status Http2Connection::Send() {
  while (!waiting_.empty() &&
         window_ >= static_cast<int64_t>(kMessageHeader + waiting_.front().size())) {
    AddCall(waiting_.front());
    waiting_.pop_front();
  }
  for (std::string_view rest = out_; !rest.empty();) {
    const ssize_t sent = send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent <= 0) return absl::ErrnoToStatus(errno, "cannot send");
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  out_.clear();
  return absl::OkStatus();
}

absl::StatusOr<size_t> Http2Connection::Receive() {
  const size_t had = in_.size();
  in_.resize(had + kReadBytes);
  const ssize_t got = recv(fd_, in_.data() + had, kReadBytes, 0);
  if (got == 0) return absl::UnavailableError("the server closed the connection");
  if (got < 0) return absl::ErrnoToStatus(errno, "cannot receive");
  in_.resize(had + static_cast<size_t>(got));
  return TakeFrames();
}

absl::StatusOr<size_t> Http2Connection::TakeFrames() {
  std::string_view rest = in_;
  size_t answers = 0;
  while (rest.size() >= kFrameHeader) {
    const size_t bytes = NumberAt(rest, 0, 3);
    if (rest.size() < kFrameHeader + bytes) break;
    const auto ended = TakeFrame(static_cast<uint8_t>(rest[3]), static_cast<uint8_t>(rest[4]),
                                 NumberAt(rest, 5, 4), rest.substr(kFrameHeader, bytes));
    if (!ended.ok()) return ended;
    answers += *ended;
    rest.remove_prefix(kFrameHeader + bytes);
  }
  in_.erase(0, in_.size() - rest.size());
  return answers;
}

// Returns how many calls it ends.
absl::StatusOr<size_t> Http2Connection::TakeFrame(uint8_t type, uint8_t flags, uint32_t stream,
                                                  std::string_view content) {
  switch (type) {
    case kData: TakeData(stream, content.size()); break;
    case kHeaders: return (flags & kEndStream) != 0 ? TakeEnd(stream) : 0;
    case kSettings:
      if ((flags & kAck) == 0) BeginFrame(0, kSettings, kAck, 0);
      break;
    case kPing:
      if ((flags & kAck) != 0) break;
      BeginFrame(content.size(), kPing, kAck, 0);
      out_ += content;
      break;
    case kWindowUpdate:
      if (stream == 0) window_ += NumberAt(content, 0, sizeof(uint32_t));
      break;
    case kReset: return absl::UnavailableError("the server reset a call");
    case kGoAway: return absl::UnavailableError("the server ends the connection");
    default: break;
  }
  return 0;
}

void Http2Connection::TakeData(uint32_t stream, size_t bytes) {
  with_message_.insert(stream);
  received_ += bytes;
  if (received_ < kLargestWindow / 4) return;
  BeginFrame(sizeof(uint32_t), kWindowUpdate, 0, 0);
  AddNumber(static_cast<uint32_t>(std::exchange(received_, 0)));
}

absl::StatusOr<size_t> Http2Connection::TakeEnd(uint32_t stream) {
  if (with_message_.erase(stream) == 1) return 1;
  return absl::UnavailableError("a call was answered with an error");
}

}  // namespace lodgekv::server_bench
