// The C++ client of LodgeKV.
//
// INVARIANTS
// - A client is thread-safe; many threads may call its methods, and share one connection.
// - Nothing is ever retried. A write that fails with CANCELLED, DEADLINE_EXCEEDED or UNKNOWN, with
//   UNAVAILABLE or INTERNAL without a reason (the connection broke, or the call's stream was
//   reset), or because the medium failed, may or may not have been applied:
//   WriteIsUnknown(status). So may those of a session that were not answered when it ended without
//   a reason, whatever the code. Only the caller knows whether applying it twice is harmless; a
//   condition makes it so. With every other error the write was not applied.
// - A missing key is a normal answer, not an error.
// - Keys, values and messages are byte strings; nothing is assumed about their encoding.
// - An error is an absl::Status with the code of gRPC, the server's message, and the server's
//   details as payload, which ErrorOf reads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lodgekv/v1/admin.pb.h"

namespace lodgekv::client {

inline constexpr std::string_view kDefaultServer = "127.0.0.1:7411";
inline constexpr std::string_view kDefaultAdmin = "127.0.0.1:7412";

// Texts in PEM format.
struct TlsOptions {
  // CA certificates that the server's certificate must be issued by.
  std::string ca_pem;
  // The client's own certificate, if the server requests one; both or none.
  std::string cert_pem;
  std::string key_pem;
  // The name to expect in the server's certificate. Empty: the host of the address.
  std::string server_name;
};

struct ClientOptions {
  // host:port, [IPv6]:port or unix:/path.
  std::string server = std::string(kDefaultServer);
  // For the calls of AdminClient.
  std::string admin = std::string(kDefaultAdmin);
  // The longest wait for the answer to one call, including all of a Scan. Infinite: no limit. A
  // session has its own (SessionOptions).
  absl::Duration timeout = absl::Seconds(30);
  // While a call is open and nothing arrives for keepalive_time, the server is pinged; if it does
  // not answer within keepalive_timeout the call fails with UNAVAILABLE. So a call without a
  // timeout does not wait for ever for a server that is stopped, or whose machine is gone.
  // Infinite: never pinged. A server closes connections that ping more often than every 5 seconds.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(20);
  // Absent: plaintext.
  std::optional<TlsOptions> tls = std::nullopt;
  // Clients of one address share a connection unless they want one of their own.
  bool own_connection = false;
  // If set, each call of Client requests its cost on the medium and passes it on before it returns
  // or is done; also on a gRPC thread, so it must not block. Each message of a session is a call in
  // this sense. A call that never reached the server has no cost.
  std::function<void(const v1::Cost&)> on_cost = nullptr;
};

// The condition for a write to be applied; at most one of the three.
struct WriteCondition {
  bool if_absent = false;
  bool if_present = false;
  // The live value has this version (not 0).
  std::optional<uint64_t> if_version;
};

struct PutOptions {
  WriteCondition condition;
  // Time to live of the value; absent: forever.
  std::optional<absl::Duration> ttl;
};

struct GetResult {
  bool found = false;
  std::string value;
  // 0 in a pool without versions.
  uint64_t version = 0;
  std::optional<absl::Time> expire_time;
};

// One write of a batch or of a session: a put if it has a value, otherwise a delete.
struct BatchOp {
  std::string key;
  std::optional<std::string> value;
  PutOptions options;
};

// The result of one write of a batch.
struct BatchResult {
  // For a delete and a put with a condition: there was a live value.
  bool found = false;
  // For a put: the version of the new value.
  uint64_t version = 0;
};

// The range is [start, end), restricted to keys that begin with prefix; empty strings do not
// restrict it.
struct ScanOptions {
  std::string start;
  std::string end;
  std::string prefix;
  uint64_t limit = 0;  // 0: none
  bool reverse = false;
  bool keys_only = false;
  // Continues after the place that an earlier scan of the same range reported.
  std::string continuation;
};

struct ScanItem {
  std::string_view key;    // valid during the visitor's call
  std::string_view value;  // likewise
  uint64_t version = 0;
  std::optional<absl::Time> expire_time;
};

// Returns false to end the scan.
using ScanVisitor = absl::FunctionRef<bool(const ScanItem&)>;

using WriteDone = std::function<void(absl::Status)>;

struct SessionOptions {
  // How long the session may last, from its opening to the last answer; after that it ends with
  // DEADLINE_EXCEEDED. Infinite: no limit.
  absl::Duration timeout = absl::InfiniteDuration();
  // Messages that may be without an answer at a time, at least 1.
  uint64_t unanswered = 4'096;
};

// One read of a session.
struct GetOp {
  std::string key;
};

using SessionOp = std::variant<BatchOp, GetOp>;

struct SendOptions {
  // All writes of the message or none, also across a crash; no gets then, and each key once.
  bool atomic = false;
};

// What one operation did, or why it was not applied. Of a get everything is set; of a write what
// BatchResult has.
using SessionResult = absl::StatusOr<GetResult>;

// The results of a message, results[i] belonging to operations[i]; or why none of it was done, or
// that it got no answer.
using SessionDone = std::function<void(absl::StatusOr<std::vector<SessionResult>>)>;

// A stream of messages of operations, for throughput: no message waits for the answer to the one
// before it, and the server lets what has arrived together share its fences or its sync.
//
// INVARIANTS
// - Thread-safe. Messages have an order, that of their Sends; those of several threads at the same
//   time have some order. They are answered in it.
// - Operations on one key take effect in that order, within a message and from one to the next;
//   those on different keys in any order. Unless a message is atomic each of its operations
//   succeeds or fails by itself, and a key may occur more than once in it.
// - A write is durable when its message's `done` runs and says that it was applied.
// - `done` of each message for which Send returned OK runs exactly once, in the order of the
//   messages, on a thread that the session has for it. While it runs no further answer is received.
//   It must not call or destroy the session.
// - A message that is refused, or an operation that fails, does not end the session. When the
//   session ends before Finish (the server shuts down, the connection breaks, the timeout passes)
//   `done` runs for each message without an answer with the status of the session, for which
//   WriteIsUnknown says whether its writes may have been applied, as for any call.
// - Memory: Send keeps its message until HTTP/2's flow control has let it through; after that its
//   `done` alone is kept, of at most SessionOptions::unanswered messages. One answer is received at
//   a time. Besides there are HTTP/2's windows; what exceeds them waits at the server.
class Session {
 public:
  // Like Finish, if it was not called.
  virtual ~Session() = default;

  // Sends a message. Waits while the server receives no more, since too much of the session is
  // unanswered (kv.proto), or SessionOptions::unanswered is reached. Not OK: the session has ended,
  // with this status, or was finished (FAILED_PRECONDITION); then the message was not sent,
  // whatever WriteIsUnknown says of the status, and `done` does not run.
  virtual absl::Status Send(const std::vector<SessionOp>& operations, const SendOptions& options,
                            SessionDone done) = 0;

  // Closes the sending side, waits until `done` has run for all messages, and returns the status of
  // the session: OK if each was answered. May be called again.
  virtual absl::Status Finish() = 0;
};

// The service of keys and values.
class Client {
 public:
  // Connects at the first call.
  static std::unique_ptr<Client> Create(const ClientOptions& options);
  virtual ~Client() = default;

  // Whether the server serves calls, by one that reads and writes nothing and has no cost. Before
  // the first write: if it fails no write has been sent to anybody, which an error of a write
  // itself does not tell, not even when there never was a connection.
  virtual absl::Status Ping() = 0;

  virtual absl::StatusOr<GetResult> Get(std::string_view key) = 0;

  // Returns the version of the new value, 0 in a pool without versions.
  virtual absl::StatusOr<uint64_t> Put(std::string_view key, std::string_view value,
                                       const PutOptions& options) = 0;

  // Returns whether there was a live value.
  virtual absl::StatusOr<bool> Delete(std::string_view key, const WriteCondition& condition) = 0;

  // Visits the live keys of the range in order. `continuation`, if given, is set after each page to
  // the place where a later scan can continue; empty: the range is finished.
  virtual absl::Status Scan(const ScanOptions& options, ScanVisitor visitor,
                            std::string* continuation) = 0;

  // results[i] belongs to keys[i].
  virtual absl::StatusOr<std::vector<GetResult>> BatchGet(const std::vector<std::string>& keys) = 0;

  // All operations or none, also across a crash. results[i] belongs to ops[i].
  virtual absl::StatusOr<std::vector<BatchResult>> BatchWrite(const std::vector<BatchOp>& ops) = 0;

  // The same, without waiting. `done` runs once, on a thread of gRPC, and must neither block nor
  // destroy the client. The client's destructor waits for it.
  virtual void StartBatchWrite(const std::vector<BatchOp>& ops, WriteDone done) = 0;

  // Like Put, without waiting: the server may combine concurrent writes so that they share their
  // cost.
  virtual void StartPut(std::string_view key, std::string_view value, const PutOptions& options,
                        WriteDone done) = 0;

  // Waits for the connection. Where there is none the session has already ended: its Send and
  // Finish say so. It may outlive the client.
  virtual std::unique_ptr<Session> OpenSession(const SessionOptions& options) = 0;
};

// The service of the operator. The answers are those of admin.proto.
class AdminClient {
 public:
  static std::unique_ptr<AdminClient> Create(const ClientOptions& options);
  virtual ~AdminClient() = default;

  virtual absl::StatusOr<v1::StatusResponse> Status() = 0;
  virtual absl::StatusOr<v1::StatsResponse> Stats(bool skip_key_count) = 0;
  virtual absl::StatusOr<v1::EnginesResponse> Engines() = 0;
  virtual absl::StatusOr<v1::CheckResponse> Check() = 0;
};

// The server's information about an error besides code and message.
struct ErrorInfo {
  // Such as CONDITION_FAILED or POOL_FULL (kv.proto, ERRORS); empty: the server gave none.
  std::string reason;
  std::map<std::string, std::string> metadata;
  // A field or limit, and its error.
  std::vector<std::pair<std::string, std::string>> violations;
  // Nothing was done, and a retry makes sense after this time.
  std::optional<absl::Duration> retry_after;
};

// The name of the payload of a server's status: a google.rpc.Status, as bytes.
inline constexpr char kDetailsUrl[] = "type.googleapis.com/google.rpc.Status";
ErrorInfo ErrorOf(const absl::Status& status);

// Whether a write that failed with this status may nevertheless have been applied.
bool WriteIsUnknown(const absl::Status& status);

}  // namespace lodgekv::client
