// The notifications to a service manager, on a socket of the test.
#include "server/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "server/testing/notify_socket.h"
#include "server/testing/temp_folder.h"

namespace lodgekv::server::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ServiceManagerTest : public TempFolderTest {
 protected:
  ServiceManagerTest() : TempFolderTest("/dev/shm"), socket_(directory_ / "notify") {
    setenv("NOTIFY_SOCKET", socket_.path().c_str(), 1);
  }
  ~ServiceManagerTest() override { unsetenv("NOTIFY_SOCKET"); }

  NotifySocket socket_;
};

TEST_F(ServiceManagerTest, TheStartTimeoutIsExtendedWhileRecoveryProgresses) {
  std::atomic<uint64_t> done = 25;
  const StartReporter reporter([&] { return Progress{"leaf chain", done, 100}; }, milliseconds(1));
  EXPECT_EQ(socket_.Receive(),
            "EXTEND_TIMEOUT_USEC=300000000\nSTATUS=recovering: leaf chain 25/100");
  done = 50;
  EXPECT_THAT(socket_.Receive(), HasSubstr("leaf chain 50/100"));
}

TEST_F(ServiceManagerTest, ARecoveryWithoutProgressIsNotExtended) {
  std::atomic<int> asked = 0;
  const StartReporter reporter(
      [&] {
        ++asked;
        return Progress{"leaf chain", 25, 100};
      },
      milliseconds(1));
  EXPECT_THAT(socket_.Receive(), HasSubstr("25/100"));
  for (const int before = asked; asked < before + 3;) std::this_thread::yield();
  EXPECT_EQ(socket_.ReceiveNow(), "");
}

TEST_F(ServiceManagerTest, NothingIsSentBeforeRecoveryBegins) {
  std::atomic<int> asked = 0;
  const StartReporter reporter(
      [&] {
        ++asked;
        return Progress();
      },
      milliseconds(1));
  while (asked < 3) std::this_thread::yield();
  EXPECT_EQ(socket_.ReceiveNow(), "");
}

TEST_F(ServiceManagerTest, SendsServingReloadingAndStopping) {
  NotifyServing("127.0.0.1:7411");
  EXPECT_EQ(socket_.Receive(), "READY=1\nSTATUS=serving 127.0.0.1:7411");
  NotifyReloading();
  EXPECT_THAT(socket_.Receive(), HasSubstr("RELOADING=1\n"));
  NotifyStopping(milliseconds(15'000));
  EXPECT_THAT(socket_.Receive(),
              AllOf(HasSubstr("STOPPING=1\n"), HasSubstr("EXTEND_TIMEOUT_USEC=315000000\n")));
}

TEST_F(ServiceManagerTest, WithoutASocketNothingHappens) {
  unsetenv("NOTIFY_SOCKET");
  std::atomic<int> asked = 0;
  {
    const StartReporter reporter(
        [&] {
          return Progress{"scan", static_cast<uint64_t>(++asked), 9};
        },
        milliseconds(1));
    std::this_thread::sleep_for(milliseconds(20));
  }
  NotifyServing("127.0.0.1:7411");
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(socket_.ReceiveNow(), "");
}

}  // namespace
}  // namespace lodgekv::server::testing
