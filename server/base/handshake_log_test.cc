#include "server/base/handshake_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/base/log.h"

namespace lodgekv::server {
namespace {

using ::testing::HasSubstr;

TEST(HandshakeLogTest, CountsFailuresAndLogsThemAtALimitedRate) {
  const uint64_t before = HandshakeFailures();
  const std::string line =
      "Handshake failed with fatal error SSL_ERROR_SSL: error:0A0000C7:SSL routines::peer did not "
      "return a certificate.";
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(NoteHandshakeFailure(line));
  FlushLog();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(HandshakeFailures(), before + 5);
  EXPECT_THAT(log, HasSubstr("what=\"peer did not return a certificate\" peer=unknown "
                             "not_logged_before=0\n"));
  EXPECT_EQ(log.find('\n'), log.size() - 1) << log;
}

TEST(HandshakeLogTest, LeavesOtherLinesAlone) {
  const uint64_t before = HandshakeFailures();
  EXPECT_FALSE(NoteHandshakeFailure("Failed to load the handshaker"));
  EXPECT_FALSE(NoteHandshakeFailure(""));
  EXPECT_EQ(HandshakeFailures(), before);
}

}  // namespace
}  // namespace lodgekv::server
