#include "bench/server_bench/http2_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/server_bench/loopback.h"

namespace lodgekv::server_bench {
namespace {

constexpr size_t kReadBytes = 262'144;
constexpr uint32_t kLargestWindow = 0x7fffffff;
// What gRPC has before a message: a flag, not compressed, and the size.
constexpr size_t kMessageHeaderBytes = 5;

std::string MessageHeader(size_t bytes) {
  std::string header(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) header += static_cast<char>(bytes >> shift);
  return header;
}

// Both texts outlive the request's being queued for sending, and are not copied.
nghttp2_nv Header(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.data()));
  };
  return {.name = bytes(name),
          .value = bytes(value),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

}  // namespace

// What the session calls; user_data is the connection.
struct Http2Connection::Callbacks {
  static ssize_t ReadRequest(nghttp2_session*, int32_t, uint8_t* to, size_t room, uint32_t* flags,
                             nghttp2_data_source* source, void* connection) {
    auto& stream = *static_cast<Stream*>(source->ptr);
    const size_t bytes = std::min(room, stream.request.size() - stream.sent);
    const bool stays_open = static_cast<Http2Connection*>(connection)->one_stream_;
    if (stays_open && bytes == 0) return NGHTTP2_ERR_DEFERRED;
    std::memcpy(to, stream.request.data() + stream.sent, bytes);
    stream.sent += bytes;
    if (stream.sent == stream.request.size() && !stays_open) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(bytes);
  }

  static int OnData(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* data,
                    size_t bytes, void* user_data) {
    auto& connection = *static_cast<Http2Connection*>(user_data);
    auto* stream = static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
    if (stream != nullptr) stream->answer_bytes += bytes;
    connection.answer_bytes_ += bytes;
    if (stream != nullptr && connection.one_stream_) {
      connection.TakeAnswers(*stream, {reinterpret_cast<const char*>(data), bytes});
    }
    return 0;
  }

  static int OnHeader(nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_size,
                      const uint8_t* value, size_t value_size, uint8_t, void* user_data) {
    const auto text = [](const uint8_t* bytes, size_t size) {
      return std::string_view(reinterpret_cast<const char*>(bytes), size);
    };
    if (text(name, name_size) != "grpc-status" || text(value, value_size) == "0") return 0;
    static_cast<Http2Connection*>(user_data)->Fail("a call was answered with an error, status " +
                                                   std::string(text(value, value_size)));
    return 0;
  }

  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    auto& connection = *static_cast<Http2Connection*>(user_data);
    if (frame->hd.type == NGHTTP2_RST_STREAM) connection.Fail("the server reset a call");
    if (frame->hd.type == NGHTTP2_GOAWAY) connection.Fail("the server ends the connection");
    return 0;
  }

  static int OnClose(nghttp2_session*, int32_t id, uint32_t error, void* user_data) {
    auto& connection = *static_cast<Http2Connection*>(user_data);
    const auto found = connection.streams_.find(id);
    if (found == connection.streams_.end()) return 0;
    connection.End(*found->second, error);
    connection.streams_.erase(found);
    return 0;
  }
};

Http2Connection::~Http2Connection() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Http2Connection::Open(const LocalAddress& address, std::string_view method,
                                   size_t least_answer_bytes, bool one_stream) {
  const auto fd = ConnectTo(address);
  if (!fd.ok()) return fd.status();
  fd_ = *fd;
  method_ = method;
  least_answer_bytes_ = least_answer_bytes + kMessageHeaderBytes;
  one_stream_ = one_stream;
  in_ = std::make_unique<uint8_t[]>(kReadBytes);
  if (absl::Status status = StartSession(); !status.ok()) return status;
  return Send();
}

absl::Status Http2Connection::StartSession() {
  nghttp2_session_callbacks* callbacks = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) return absl::ResourceExhaustedError("memory");
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::OnData);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::OnHeader);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::OnFrame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::OnClose);
  nghttp2_session* session = nullptr;
  int error = nghttp2_session_client_new2(&session, callbacks, this, nullptr);
  nghttp2_session_callbacks_del(callbacks);
  session_.reset(session);
  const nghttp2_settings_entry window{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kLargestWindow};
  if (error == 0) error = nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &window, 1);
  if (error == 0) {
    error = nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, kLargestWindow);
  }
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("no session of HTTP/2: ", nghttp2_strerror(error)));
}

void Http2Connection::Fail(const std::string& why) { status_.Update(absl::UnavailableError(why)); }

void Http2Connection::End(const Stream& stream, uint32_t error) {
  if (one_stream_) return Fail("the server ended the stream");
  if (error != NGHTTP2_NO_ERROR) {
    Fail(absl::StrCat("a call ended with ", nghttp2_http2_strerror(error)));
  } else if (stream.answer_bytes < least_answer_bytes_) {
    Fail(absl::StrCat("an answer has ", stream.answer_bytes, " bytes, a right one has at least ",
                      least_answer_bytes_));
  }
  answered_.push_back(stream.from_ns);
}

void Http2Connection::Call(std::string message, uint64_t from_ns) {
  message.insert(0, MessageHeader(message.size()));
  if (one_stream_ && stream_ != nullptr) {
    AppendMessage(message, from_ns);
  } else {
    StartStream(std::move(message), from_ns);
  }
}

void Http2Connection::AppendMessage(const std::string& message, uint64_t from_ns) {
  if (stream_->sent == stream_->request.size()) {
    stream_->request.clear();
    stream_->sent = 0;
  }
  stream_->request += message;
  stream_->awaited.push_back(from_ns);
  nghttp2_session_resume_data(session_.get(), stream_id_);
}

void Http2Connection::TakeAnswers(Stream& stream, std::string_view bytes) {
  while (!bytes.empty()) {
    if (stream.answer_header.size() < kMessageHeaderBytes) {
      const size_t taken =
          std::min(bytes.size(), kMessageHeaderBytes - stream.answer_header.size());
      stream.answer_header += bytes.substr(0, taken);
      bytes.remove_prefix(taken);
      if (stream.answer_header.size() < kMessageHeaderBytes) return;
      stream.answer_rest = 0;
      for (size_t i = 1; i < kMessageHeaderBytes; ++i) {
        stream.answer_rest =
            stream.answer_rest << 8 | static_cast<unsigned char>(stream.answer_header[i]);
      }
      if (stream.answer_rest + kMessageHeaderBytes < least_answer_bytes_) {
        Fail(absl::StrCat("a message of an answer has ", stream.answer_rest, " bytes"));
      }
    }
    const size_t taken = std::min(bytes.size(), stream.answer_rest);
    bytes.remove_prefix(taken);
    stream.answer_rest -= taken;
    if (stream.answer_rest > 0) return;
    stream.answer_header.clear();
    if (stream.awaited.empty()) return Fail("an answer without a request");
    answered_.push_back(stream.awaited.front());
    stream.awaited.pop_front();
  }
}

void Http2Connection::StartStream(std::string request_bytes, uint64_t from_ns) {
  auto stream = std::make_unique<Stream>();
  stream->request = std::move(request_bytes);
  stream->from_ns = from_ns;
  const std::array headers = {
      Header(":method", "POST"), Header(":scheme", "http"),
      Header(":path", method_),  Header(":authority", "127.0.0.1"),
      Header("te", "trailers"),  Header("content-type", "application/grpc"),
  };
  const nghttp2_data_provider request{.source = {.ptr = stream.get()},
                                      .read_callback = Callbacks::ReadRequest};
  const int32_t id = nghttp2_submit_request(session_.get(), nullptr, headers.data(), headers.size(),
                                            &request, stream.get());
  if (id < 0) {
    Fail(absl::StrCat("cannot queue a call: ", nghttp2_strerror(id)));
    return;
  }
  if (one_stream_) {
    stream->awaited.push_back(from_ns);
    stream_ = stream.get();
    stream_id_ = id;
  }
  streams_.emplace(id, std::move(stream));
}

// All frames by one call of the system.
absl::Status Http2Connection::Send() {
  const uint8_t* frames = nullptr;
  ssize_t bytes = 0;
  while ((bytes = nghttp2_session_mem_send(session_.get(), &frames)) > 0) {
    out_.append(reinterpret_cast<const char*>(frames), static_cast<size_t>(bytes));
  }
  if (bytes < 0) Fail(nghttp2_strerror(static_cast<int>(bytes)));
  for (std::string_view rest = out_; !rest.empty();) {
    const ssize_t sent = send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent <= 0) return absl::ErrnoToStatus(errno, "cannot send");
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  out_.clear();
  // It has sent GOAWAY, and takes no answers any more.
  if (nghttp2_session_want_read(session_.get()) == 0) Fail("the server breaks HTTP/2");
  return status_;
}

absl::StatusOr<absl::Span<const uint64_t>> Http2Connection::Receive() {
  answered_.clear();
  const ssize_t got = recv(fd_, in_.get(), kReadBytes, 0);
  if (got == 0) return absl::UnavailableError("the server closed the connection");
  if (got < 0) return absl::ErrnoToStatus(errno, "cannot receive");
  const ssize_t taken =
      nghttp2_session_mem_recv(session_.get(), in_.get(), static_cast<size_t>(got));
  if (taken < 0) Fail(nghttp2_strerror(static_cast<int>(taken)));
  if (!status_.ok()) return status_;
  return absl::MakeConstSpan(answered_);
}

}  // namespace lodgekv::server_bench
