#include <grpcpp/grpcpp.h>

#include "absl/base/thread_annotations.h"
#include "absl/strings/cord.h"
#include "absl/synchronization/mutex.h"
#include "client/channel.h"
#include "client/conversions.h"
#include "client/grpc_session.h"
#include "client/lodgekv_client.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "lodgekv/v1/admin.grpc.pb.h"
#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::client {
namespace {

constexpr char kCostTrailer[] = "lodgekv-cost-bin";

v1::BatchWriteRequest ToRequest(const std::vector<BatchOp>& ops) {
  v1::BatchWriteRequest request;
  request.mutable_operations()->Reserve(static_cast<int>(ops.size()));
  for (const BatchOp& op : ops) SetWrite(op, *request.add_operations());
  return request;
}

v1::PutRequest ToRequest(std::string_view key, std::string_view value, const PutOptions& options) {
  v1::PutRequest request;
  request.set_key(std::string(key));
  request.set_value(std::string(value));
  SetCondition(options.condition, request);
  if (options.ttl) *request.mutable_ttl() = ToProto(*options.ttl);
  return request;
}

v1::ScanRequest ToRequest(const ScanOptions& options) {
  v1::ScanRequest request;
  request.set_start(options.start);
  request.set_end(options.end);
  request.set_prefix(options.prefix);
  request.set_limit(options.limit);
  request.set_reverse(options.reverse);
  request.set_keys_only(options.keys_only);
  request.set_continuation(options.continuation);
  return request;
}

// The state of a call in flight.
template <typename Request, typename Response>
struct Pending {
  grpc::ClientContext context;
  Request request;
  Response response;
};

// Passes on the cost that the server reported for the call.
void TakeCost(const grpc::ClientContext& context, const CostTaker& on_cost) {
  if (!on_cost) return;
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto trailer = trailers.find(kCostTrailer);
  v1::Cost cost;
  if (trailer == trailers.end()) return;
  const grpc::string_ref bytes = trailer->second;
  if (cost.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) on_cost(cost);
}

// The calls that were started and whose state still exists. That state holds the channel, and a
// channel must not end on the thread of gRPC that runs `done`: it would join that very thread
// (gRPC issue 37198). So the client waits for them before it drops the channel itself.
class StartedCalls {
 public:
  template <typename Call>
  std::shared_ptr<Call> Add() {
    Change(+1);
    return {new Call, [this](Call* call) {
              delete call;
              Change(-1);
            }};
  }

  void AwaitNone() {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* count) { return *count == 0; }, &count_));
  }

 private:
  void Change(int by) {
    const absl::MutexLock lock(&mutex_);
    count_ += by;
  }

  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

template <typename Call>
std::function<void(grpc::Status)> FinishWith(std::shared_ptr<Call> pending,
                                             const CostTaker& on_cost, WriteDone done) {
  return [pending, on_cost, done = std::move(done)](const grpc::Status& status) {
    TakeCost(pending->context, on_cost);
    done(ToAbsl(status));
  };
}

class GrpcClient final : public Client {
 public:
  explicit GrpcClient(const ClientOptions& options)
      : stub_(v1::KvService::NewStub(MakeChannel(options.server, options))),
        timeout_(options.timeout),
        on_cost_(options.on_cost) {}

  ~GrpcClient() override { started_.AwaitNone(); }

  absl::Status Ping() override {
    grpc::ClientContext context;
    SetDeadline(context, timeout_);
    v1::BatchGetResponse response;
    return ToAbsl(stub_->BatchGet(&context, {}, &response));
  }

  absl::StatusOr<GetResult> Get(std::string_view key) override {
    v1::GetRequest request;
    request.set_key(std::string(key));
    v1::GetResponse response;
    absl::Status status = Call(&v1::KvService::Stub::Get, request, response);
    if (!status.ok()) return status;
    return ToGetResult(response);
  }

  absl::StatusOr<uint64_t> Put(std::string_view key, std::string_view value,
                               const PutOptions& options) override {
    v1::PutResponse response;
    v1::PutRequest request = ToRequest(key, value, options);
    absl::Status status = Call(&v1::KvService::Stub::Put, request, response);
    if (!status.ok()) return status;
    return response.version();
  }

  absl::StatusOr<bool> Delete(std::string_view key, const WriteCondition& condition) override {
    v1::DeleteRequest request;
    request.set_key(std::string(key));
    SetCondition(condition, request);
    v1::DeleteResponse response;
    absl::Status status = Call(&v1::KvService::Stub::Delete, request, response);
    if (!status.ok()) return status;
    return response.found();
  }

  absl::Status Scan(const ScanOptions& options, ScanVisitor visitor,
                    std::string* continuation) override {
    grpc::ClientContext context;
    SetDeadline(context, timeout_);
    v1::ScanRequest request = ToRequest(options);
    AskForCost(request);
    auto reader = stub_->Scan(&context, request);
    v1::ScanResponse page;
    while (reader->Read(&page)) {
      for (const v1::ScanItem& item : page.items()) {
        if (visitor({item.key(), item.value(), item.version(), ExpireTime(item)})) continue;
        context.TryCancel();
        reader->Finish();  // its CANCELLED was caused by us
        return absl::OkStatus();
      }
      if (continuation != nullptr) *continuation = page.continuation();
    }
    const grpc::Status status = reader->Finish();
    TakeCost(context, on_cost_);
    return ToAbsl(status);
  }

  absl::StatusOr<std::vector<GetResult>> BatchGet(const std::vector<std::string>& keys) override {
    v1::BatchGetRequest request;
    request.mutable_keys()->Assign(keys.begin(), keys.end());
    v1::BatchGetResponse response;
    absl::Status status = Call(&v1::KvService::Stub::BatchGet, request, response);
    if (!status.ok()) return status;
    std::vector<GetResult> results;
    for (v1::Lookup& lookup : *response.mutable_results()) results.push_back(ToGetResult(lookup));
    return results;
  }

  absl::StatusOr<std::vector<BatchResult>> BatchWrite(const std::vector<BatchOp>& ops) override {
    v1::BatchWriteResponse response;
    v1::BatchWriteRequest request = ToRequest(ops);
    absl::Status status = Call(&v1::KvService::Stub::BatchWrite, request, response);
    if (!status.ok()) return status;
    std::vector<BatchResult> results;
    for (const v1::WriteResult& result : response.results()) {
      results.push_back({result.found(), result.version()});
    }
    return results;
  }

  void StartBatchWrite(const std::vector<BatchOp>& ops, WriteDone done) override {
    auto pending = started_.Add<Pending<v1::BatchWriteRequest, v1::BatchWriteResponse>>();
    pending->request = ToRequest(ops);
    AskForCost(pending->request);
    SetDeadline(pending->context, timeout_);
    stub_->async()->BatchWrite(&pending->context, &pending->request, &pending->response,
                               FinishWith(pending, on_cost_, std::move(done)));
  }

  std::unique_ptr<Session> OpenSession(const SessionOptions& options) override {
    return std::make_unique<GrpcSession>(*stub_, options, on_cost_);
  }

  void StartPut(std::string_view key, std::string_view value, const PutOptions& options,
                WriteDone done) override {
    auto pending = started_.Add<Pending<v1::PutRequest, v1::PutResponse>>();
    pending->request = ToRequest(key, value, options);
    AskForCost(pending->request);
    SetDeadline(pending->context, timeout_);
    stub_->async()->Put(&pending->context, &pending->request, &pending->response,
                        FinishWith(pending, on_cost_, std::move(done)));
  }

 private:
  template <typename Request>
  void AskForCost(Request& request) const {
    request.set_want_cost(on_cost_ != nullptr);
  }

  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, Request& request, Response& response) {
    grpc::ClientContext context;
    SetDeadline(context, timeout_);
    AskForCost(request);
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    TakeCost(context, on_cost_);
    return ToAbsl(status);
  }

  const std::unique_ptr<v1::KvService::Stub> stub_;
  const absl::Duration timeout_;
  const CostTaker on_cost_;
  StartedCalls started_;
};

class GrpcAdminClient final : public AdminClient {
 public:
  explicit GrpcAdminClient(const ClientOptions& options)
      : stub_(v1::AdminService::NewStub(MakeChannel(options.admin, options))),
        timeout_(options.timeout) {}

  absl::StatusOr<v1::StatusResponse> Status() override {
    return Call<v1::StatusResponse>(&v1::AdminService::Stub::Status, v1::StatusRequest());
  }

  absl::StatusOr<v1::StatsResponse> Stats(bool skip_key_count) override {
    v1::StatsRequest request;
    request.set_skip_key_count(skip_key_count);
    return Call<v1::StatsResponse>(&v1::AdminService::Stub::Stats, request);
  }

  absl::StatusOr<v1::EnginesResponse> Engines() override {
    return Call<v1::EnginesResponse>(&v1::AdminService::Stub::Engines, v1::EnginesRequest());
  }

  absl::StatusOr<v1::CheckResponse> Check() override {
    return Call<v1::CheckResponse>(&v1::AdminService::Stub::Check, v1::CheckRequest());
  }

 private:
  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> Call(Method method, const Request& request) {
    grpc::ClientContext context;
    SetDeadline(context, timeout_);
    Response response;
    absl::Status status = ToAbsl((stub_.get()->*method)(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

  const std::unique_ptr<v1::AdminService::Stub> stub_;
  const absl::Duration timeout_;
};

void AddDetail(const google::protobuf::Any& detail, ErrorInfo& error) {
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad_request;
  google::rpc::QuotaFailure quota;
  google::rpc::PreconditionFailure precondition;
  google::rpc::RetryInfo retry;
  if (detail.UnpackTo(&info)) {
    error.reason = info.reason();
    error.metadata.insert(info.metadata().begin(), info.metadata().end());
  } else if (detail.UnpackTo(&bad_request)) {
    for (const auto& violation : bad_request.field_violations()) {
      error.violations.emplace_back(violation.field(), violation.description());
    }
  } else if (detail.UnpackTo(&quota)) {
    for (const auto& violation : quota.violations()) {
      error.violations.emplace_back(violation.subject(), violation.description());
    }
  } else if (detail.UnpackTo(&precondition)) {
    for (const auto& violation : precondition.violations()) {
      error.violations.emplace_back(violation.subject(), violation.description());
    }
  } else if (detail.UnpackTo(&retry)) {
    error.retry_after = absl::Seconds(retry.retry_delay().seconds()) +
                        absl::Nanoseconds(retry.retry_delay().nanos());
  }
}

}  // namespace

std::unique_ptr<Client> Client::Create(const ClientOptions& options) {
  return std::make_unique<GrpcClient>(options);
}

std::unique_ptr<AdminClient> AdminClient::Create(const ClientOptions& options) {
  return std::make_unique<GrpcAdminClient>(options);
}

ErrorInfo ErrorOf(const absl::Status& status) {
  ErrorInfo error;
  const auto payload = status.GetPayload(kDetailsUrl);
  google::rpc::Status details;
  if (!payload || !details.ParseFromString(std::string(*payload))) return error;
  for (const google::protobuf::Any& detail : details.details()) AddDetail(detail, error);
  return error;
}

bool WriteIsUnknown(const absl::Status& status) {
  if (status.GetPayload(kSessionBrokenUrl)) return true;
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnknown: return true;
    // Of gRPC itself: the stream was reset, perhaps with the answer on its way.
    case absl::StatusCode::kInternal: return ErrorOf(status).reason.empty();
    case absl::StatusCode::kUnavailable: {
      const std::string reason = ErrorOf(status).reason;
      return reason.empty() || reason == "MEDIUM_FAILED" || reason == "POOL_GONE";
    }
    default: return false;
  }
}

}  // namespace lodgekv::client
