// grpc.health.v1 over a real connection, and reflection of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/admin/health_service.h"
#include "server/admin/health_state.h"
#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Stub = grpc::health::v1::Health::Stub;

TEST(HealthTest, EachServiceHasAnAnswer) {
  TestDaemon daemon;
  for (const auto& channel : {daemon.data_channel(), daemon.admin_channel()}) {
    EXPECT_EQ(HealthOf(channel), "SERVING");
    EXPECT_EQ(HealthOf(channel, "lodgekv.v1.KvService"), "SERVING");
    EXPECT_EQ(HealthOf(channel, "lodgekv.v1.AdminService"), "SERVING");
    EXPECT_EQ(HealthOf(channel, "lodgekv.recovery"), "SERVING");
    EXPECT_EQ(HealthOf(channel, "no.such.Service"), "NOT_FOUND");
  }
}

// A probe may require the medium it expects. The engine dram has none.
TEST(HealthTest, TheClassOfTheMediumHasAnAnswer) {
  TestDaemon daemon;
  EXPECT_EQ(HealthOf(daemon.admin_channel(), "lodgekv.medium.none"), "SERVING");
  for (const std::string other :
       {"pmem-adr", "pmem-eadr", "cxl", "file", "pmem-forced", "volatile"}) {
    EXPECT_EQ(HealthOf(daemon.admin_channel(), "lodgekv.medium." + other), "NOT_SERVING") << other;
  }
  EXPECT_EQ(HealthOf(daemon.admin_channel(), "lodgekv.medium.nosuch"), "NOT_FOUND");
}

TEST(HealthTest, ReflectionDescribesIt) {
  TestDaemon daemon;
  for (const auto& channel : {daemon.data_channel(), daemon.admin_channel()}) {
    EXPECT_THAT(ListServices(channel), HasSubstr("grpc.health.v1.Health"));
    EXPECT_THAT(DescribeSymbol(channel, "grpc.health.v1.Health"), HasSubstr("HealthCheckRequest"));
  }
}

// A server with only the health service.
class HealthServer {
 public:
  explicit HealthServer(HealthState& state) : service_(state) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    service_.Receive(*queue_);
    poller_ = std::thread([this] {
      void* tag = nullptr;
      bool ok = false;
      while (queue_->Next(&tag, &ok)) static_cast<Event*>(tag)->OnEvent(ok);
    });
    stub_ = grpc::health::v1::Health::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  }

  ~HealthServer() {
    server_->Shutdown(std::chrono::system_clock::now());
    queue_->Shutdown();
    poller_.join();
  }

  Stub& stub() { return *stub_; }

 private:
  HealthService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread poller_;
  std::unique_ptr<Stub> stub_;
};

// Two ports, whose state the test sets.
class WatchTest : public ::testing::Test {
 protected:
  static constexpr size_t kMaxWatchers = 3;

  HealthState state_{kMaxWatchers};
  HealthServer server_{state_};
  HealthServer other_{state_};
  Stub* stub_ = &server_.stub();
};

struct Stream {
  Stream(Stub& stub, const std::string& name) {
    SetDeadline(context);
    HealthCheckRequest request;
    request.set_service(name);
    reader = stub.Watch(&context, request);
  }

  // The next answer, or the code that the stream ended with.
  std::string Next() {
    HealthCheckResponse response;
    if (reader->Read(&response)) {
      return HealthCheckResponse::ServingStatus_Name(response.status());
    }
    const grpc::Status status = reader->Finish();
    return std::to_string(status.error_code()) + " " + status.error_message();
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
};

TEST_F(WatchTest, SeesEachChangeOfItsName) {
  Stream all(*stub_, "");
  Stream unknown(*stub_, "no.such.Service");
  EXPECT_EQ(all.Next(), "NOT_SERVING");
  EXPECT_EQ(unknown.Next(), "SERVICE_UNKNOWN");
  state_.Set("", true);
  EXPECT_EQ(all.Next(), "SERVING");
  state_.Set("lodgekv.v1.KvService", true);
  state_.StopServing();
  EXPECT_EQ(all.Next(), "NOT_SERVING");
  state_.Set("", true);
  EXPECT_EQ(state_.Get(""), Health::kNotServing);
}

TEST_F(WatchTest, TooManyStreamsAreRefusedUntilOneEnds) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (size_t i = 0; i < kMaxWatchers; ++i) {
    streams.push_back(std::make_unique<Stream>(*stub_, ""));
    EXPECT_EQ(streams.back()->Next(), "NOT_SERVING");
  }
  EXPECT_THAT(Stream(*stub_, "").Next(), HasSubstr("8 too many streams"));
  EXPECT_EQ(Stream(other_.stub(), "").Next(), "NOT_SERVING") << "it keeps out none of another port";
  streams.front()->context.TryCancel();
  EXPECT_THAT(streams.front()->Next(), HasSubstr("1 "));
  std::string answer;
  for (int i = 0; i < 1'000 && answer != "NOT_SERVING"; ++i) {
    answer = Stream(*stub_, "").Next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(answer, "NOT_SERVING");
}

TEST_F(WatchTest, ANameThatIsTooLongIsRefused) {
  EXPECT_THAT(Stream(*stub_, std::string(201, 'x')).Next(), HasSubstr("3 the name"));
  EXPECT_EQ(Stream(*stub_, std::string(200, 'x')).Next(), "SERVICE_UNKNOWN");
}

}  // namespace
}  // namespace lodgekv::server::testing
