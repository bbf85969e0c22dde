// What the C++ client does when its server stops in the middle: no connection is closed, nothing is
// sent.
#include "absl/time/time.h"
#include "client/lodgekv_client.h"
#include "server/testing/daemon_process.h"

namespace lodgekv::server::testing {
namespace {

class StoppedServerTest : public LodgekvdTest {
 protected:
  // That of a call which nothing ends before.
  static constexpr absl::Duration kTimeout = absl::Seconds(60);

  StoppedServerTest() : daemon_(directory_, Serving({"--engine", "dram"})) {
    options_.server = daemon_.AwaitAddress("serving", "data");
    options_.admin = daemon_.AwaitAddress("listening", "admin");
    options_.timeout = kTimeout;
    options_.keepalive_time = options_.keepalive_timeout = absl::Milliseconds(200);
  }

  Process daemon_;
  client::ClientOptions options_;
};

TEST_F(StoppedServerTest, CallsEndBeforeTheirTimeout) {
  const auto client = client::Client::Create(options_);
  const auto admin = client::AdminClient::Create(options_);
  ASSERT_TRUE(client->Put("k", "v", {}).ok());
  ASSERT_TRUE(admin->Status().ok());
  const auto session = client->OpenSession({.timeout = kTimeout});
  daemon_.Stop();
  const auto visit = [](const client::ScanItem&) { return true; };
  EXPECT_EQ(client->Scan({}, visit, nullptr).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(admin->Check().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(session->Finish().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lodgekv::server::testing
