#include "server/testing/test_daemon.h"

#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "server/rpc/rpc_recorder.h"

namespace lodgekv::server::testing {
namespace {

void MustBeOk(const absl::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  std::abort();
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // A channel of its own, so that each test client connects anew.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

grpc::ByteBuffer ToBuffer(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

template <class Detail>
bool UnpackInto(const google::protobuf::Any& any, Detail& detail) {
  return any.Is<Detail>() && any.UnpackTo(&detail);
}

}  // namespace

DaemonHooks HooksOf(std::shared_ptr<Faults> faults) {
  DaemonHooks hooks;
  hooks.open_store = [faults = std::move(faults)](const StoreOptions& options) {
    return OpenFakeStore(options, faults);
  };
  return hooks;
}

Config TestConfig() {
  Config config = DefaultConfig();
  config.engine = "dram";
  config.listen = "127.0.0.1:0";
  config.admin_listen = "127.0.0.1:0";
  config.metrics_listen = "off";
  config.threads = 2;
  config.drain_grace_ms = 2'000;
  return config;
}

TestDaemon::TestDaemon(const Config& config, DaemonHooks hooks) {
  MustBeOk(ValidateConfig(config), "configuration");
  hooks.clock = &clock_;
  daemon_ = std::make_unique<Daemon>(config, std::move(hooks));
  MustBeOk(daemon_->Listen(), "listen");
  MustBeOk(daemon_->OpenStore(), "open");
  data_channel_ = Connect(daemon_->data_address());
  admin_channel_ = Connect(daemon_->admin_address());
  kv_ = v1::KvService::NewStub(data_channel_);
  admin_ = v1::AdminService::NewStub(admin_channel_);
}

TestDaemon::~TestDaemon() = default;

void SetDeadline(grpc::ClientContext& context, std::chrono::milliseconds after) {
  context.set_deadline(std::chrono::system_clock::now() + after);
}

grpc::Status TestDaemon::Put(const v1::PutRequest& request, v1::PutResponse* response) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::PutResponse own;
  return kv_->Put(&context, request, response != nullptr ? response : &own);
}

grpc::Status TestDaemon::Put(const std::string& key, const std::string& value) {
  return Put(MakePut(key, value));
}

grpc::Status TestDaemon::Get(const std::string& key, v1::GetResponse* response) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetRequest request;
  request.set_key(key);
  return kv_->Get(&context, request, response);
}

grpc::Status TestDaemon::Delete(const v1::DeleteRequest& request, v1::DeleteResponse* response) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::DeleteResponse own;
  return kv_->Delete(&context, request, response != nullptr ? response : &own);
}

grpc::Status TestDaemon::BatchWrite(const v1::BatchWriteRequest& request,
                                    v1::BatchWriteResponse* response) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::BatchWriteResponse own;
  return kv_->BatchWrite(&context, request, response != nullptr ? response : &own);
}

grpc::Status TestDaemon::BatchGet(const v1::BatchGetRequest& request,
                                  v1::BatchGetResponse* response) {
  grpc::ClientContext context;
  SetDeadline(context);
  return kv_->BatchGet(&context, request, response);
}

grpc::Status TestDaemon::Scan(const v1::ScanRequest& request,
                              std::vector<v1::ScanResponse>* pages) {
  grpc::ClientContext context;
  SetDeadline(context);
  const auto reader = kv_->Scan(&context, request);
  v1::ScanResponse page;
  while (reader->Read(&page)) pages->push_back(page);
  return reader->Finish();
}

std::string TestDaemon::ValueOf(const std::string& key) {
  v1::GetResponse response;
  const grpc::Status status = Get(key, &response);
  if (!status.ok()) return CodeAndReason(status);
  return response.found() ? response.value() : "(none)";
}

ErrorDetails DetailsOf(const grpc::Status& status) {
  ErrorDetails details;
  google::rpc::Status message;
  if (!message.ParseFromString(status.error_details())) return details;
  EXPECT_EQ(message.code(), static_cast<int>(status.error_code()));
  EXPECT_EQ(message.message(), status.error_message());
  for (const auto& any : message.details()) {
    const bool known = UnpackInto(any, details.info) || UnpackInto(any, details.bad_request) ||
                       UnpackInto(any, details.quota) || UnpackInto(any, details.precondition) ||
                       (details.has_retry = UnpackInto(any, details.retry));
    EXPECT_TRUE(known) << any.type_url();
  }
  return details;
}

bool Await(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool AwaitInFlight(TestDaemon& daemon, uint64_t operations) {
  const Admission& admission = daemon.daemon().state().admission();
  return Await([&] { return admission.operations() == operations; });
}

std::string CodeAndReason(const grpc::Status& status) {
  return std::string(CodeName(status.error_code())) + " " + DetailsOf(status).info.reason();
}

v1::PutRequest MakePut(const std::string& key, const std::string& value, v1::Condition condition,
                       uint64_t if_version) {
  v1::PutRequest request;
  request.set_key(key);
  request.set_value(value);
  request.set_condition(condition);
  request.set_if_version(if_version);
  return request;
}

std::string HealthOf(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  SetDeadline(context);
  // HealthCheckRequest: field 1 is the service's name; the answer's field 1 is 1 for SERVING.
  const std::string request =
      service.empty() ? "" : std::string("\x0a", 1) + static_cast<char>(service.size()) + service;
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", ToBuffer(request), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, &queue);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return std::string(CodeName(status.error_code()));
  const std::string bytes = ToString(answer);
  if (bytes == "\x08\x01") return "SERVING";
  return bytes == "\x08\x02" ? "NOT_SERVING" : "UNKNOWN";
}

// The raw answer of reflection, or the code of an error.
std::string Reflect(const std::shared_ptr<grpc::Channel>& channel, const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  SetDeadline(context);
  void* tag = nullptr;
  bool ok = false;
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(&queue);
  queue.Next(&tag, &ok);
  call->WriteLast(ToBuffer(request), grpc::WriteOptions(), &queue);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer answer;
  call->Read(&answer, &queue);
  bool answered = false;
  queue.Next(&tag, &answered);
  grpc::Status status;
  call->Finish(&status, &queue);
  queue.Next(&tag, &ok);
  return answered ? ToString(answer) : std::string(CodeName(status.error_code()));
}

// A ServerReflectionRequest: field 7, list_services, an empty string.
std::string ListServices(const std::shared_ptr<grpc::Channel>& channel) {
  return Reflect(channel, std::string("\x3a\x00", 2));
}

// Field 4, file_containing_symbol.
std::string DescribeSymbol(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& symbol) {
  return Reflect(channel, std::string("\x22") + static_cast<char>(symbol.size()) + symbol);
}

std::string Scrape(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  std::string text;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) == 0) {
    const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
    std::array<char, 65'536> buffer{};
    if (write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
      for (ssize_t n = 0; (n = read(fd, buffer.data(), buffer.size())) > 0;) {
        text.append(buffer.data(), static_cast<size_t>(n));
      }
    }
  }
  close(fd);
  return text;
}

}  // namespace lodgekv::server::testing
