#include "server/front_door/connection_record.h"

#include <gtest/gtest.h>

#include "server/base/limits.h"

namespace lodgekv::server {
namespace {

using std::chrono::milliseconds;

constexpr ConnectionLimits kLimits{.max_streams = 100,
                                   .max_message_size = 5 * kMiB,
                                   .max_unfinished_size = 64 * kMiB,
                                   .resets_per_second = 200,
                                   .invalid_bytes_per_second = 16 * kMiB,
                                   .message_timeout = milliseconds(20'000)};

// A connection that is checked every 100 ms.
class ConnectionRecordTest : public ::testing::Test {
 protected:
  std::optional<EndReason> Look(uint64_t more_bytes, const std::optional<StreamCounts>& streams,
                                uint64_t more_request_bytes = 0, uint64_t more_invalid_bytes = 0) {
    now_ += milliseconds(100);
    use_.bytes_read += more_bytes;
    requests_.all += more_request_bytes;
    requests_.invalid += more_invalid_bytes;
    record_.Note(use_, streams, requests_, sessions_, kLimits, now_);
    return record_.Offence(kLimits, now_);
  }

  DoorTime now_{std::chrono::hours(1)};
  ConnectionRecord record_{now_};
  SocketUse use_;
  RequestBytes requests_;
  SessionCounts sessions_;
};

TEST_F(ConnectionRecordTest, BytesBeforeHttp2AreLimited) {
  EXPECT_FALSE(Look(100 * kKiB, std::nullopt));
  EXPECT_FALSE(Look(100 * kKiB, std::nullopt));
  EXPECT_EQ(Look(100 * kKiB, std::nullopt), EndReason::kUnfinished);
}

TEST_F(ConnectionRecordTest, ABlockOfHeadersIsLimited) {
  const StreamCounts one{.started = 1};
  EXPECT_FALSE(Look(5 * kMiB, one));
  EXPECT_FALSE(Look(5 * kMiB, one)) << "gRPC's to refuse, if it is a message that is too large";
  EXPECT_EQ(Look(5 * kMiB, one), EndReason::kUnfinished);
}

TEST_F(ConnectionRecordTest, AnIdleSessionIsNotStalled) {
  sessions_ = {.begun = 1, .open = 1};
  const StreamCounts before_its_first{.started = 1};
  for (int i = 0; i < 1'000; ++i) ASSERT_FALSE(Look(0, before_its_first)) << i;
}

TEST_F(ConnectionRecordTest, AConnectionWithSessionsThatSendNothingIsIdle) {
  sessions_ = {.begun = 2, .open = 2};
  const StreamCounts two{.started = 2};
  ASSERT_FALSE(Look(kKiB, two));
  const DoorTime begun = now_;
  ASSERT_FALSE(Look(0, two));
  ASSERT_FALSE(Look(kKiB, two));
  EXPECT_EQ(record_.idle_since(), begun);
  ++sessions_.messages;
  ASSERT_FALSE(Look(kKiB, StreamCounts{.started = 2, .messages = 1}));
  EXPECT_EQ(record_.idle_since(), now_);
  ASSERT_FALSE(Look(kKiB, StreamCounts{.started = 3, .messages = 1}));
  EXPECT_FALSE(record_.idle_since()) << "a call is open";
}

// In each check 4 MiB arrive as small messages: their frames are more than a share of their bytes.
TEST_F(ConnectionRecordTest, ASessionMaySendAnyNumberOfMessages) {
  constexpr uint64_t kMessages = 100'000;
  sessions_ = {.begun = 1, .open = 1};
  StreamCounts counts{.started = 1};
  for (int i = 0; i < 100; ++i) {
    counts.messages = sessions_.messages += kMessages;
    ASSERT_FALSE(Look(kMessages * 42, counts, kMessages * 20)) << i;
  }
}

TEST_F(ConnectionRecordTest, WhatASessionBeginsToSendIsLimited) {
  sessions_ = {.begun = 1, .open = 1, .messages = 5'000};
  const StreamCounts counts{.started = 1, .messages = 5'000};
  ASSERT_FALSE(Look(6 * kMiB, counts)) << "a message, and gRPC takes a MiB of a stream that waits";
  ASSERT_FALSE(Look(5 * kMiB, counts)) << "gRPC's to refuse, if it is a message that is too large";
  EXPECT_EQ(Look(3 * kMiB, counts), EndReason::kUnfinished);
}

// Its many messages do not pay for those of others.
TEST_F(ConnectionRecordTest, StreamsBesideASessionAreLimitedAsEver) {
  sessions_ = {.begun = 1, .open = 1, .messages = 5'000};
  const StreamCounts counts{.started = 2, .messages = 5'000};
  for (int i = 0; i < 205; ++i) {
    if (Look(0, counts) == EndReason::kStalled) return;
  }
  FAIL() << "the other stream has stalled for 20 seconds";
}

TEST_F(ConnectionRecordTest, CountsReadAtDifferentTimesAreNoOffence) {
  StreamCounts counts;
  for (int i = 0; i < 100; ++i) {
    counts.started += 10;
    counts.succeeded = counts.messages = counts.started + 1;
    ASSERT_FALSE(Look(kKiB, counts)) << i;
  }
}

TEST_F(ConnectionRecordTest, UnfinishedMessagesAreLimitedTogether) {
  const StreamCounts many{.started = 100};
  EXPECT_FALSE(Look(60 * kMiB, many));
  EXPECT_EQ(Look(10 * kMiB, many), EndReason::kUnfinished);
}

TEST_F(ConnectionRecordTest, CompleteMessagesDoNotCount) {
  StreamCounts streams{.started = 64};
  for (int i = 0; i < 1'000; ++i) {
    // At any time 64 uploads of 1 MiB are half done; between two checks 32 of them complete.
    streams.started += 32;
    streams.messages += 32;
    streams.succeeded += 32;
    ASSERT_FALSE(Look(32 * (kMiB + 10 * kKiB), streams, 32 * kMiB)) << i;
  }
  EXPECT_LT(record_.unfinished(), 40 * kMiB);
}

TEST_F(ConnectionRecordTest, SmallRequestsWithLargeHeadersAreNoOffence) {
  StreamCounts streams;
  for (int i = 0; i < 1'000; ++i) {
    streams.started += 1'000;
    streams.messages += 1'000;
    streams.succeeded += 1'000;
    ASSERT_FALSE(Look(1'000 * 8 * kKiB, streams, 1'000 * 10)) << i;
  }
}

TEST_F(ConnectionRecordTest, ResetsAboveTheRateAreAnOffence) {
  StreamCounts streams{.started = 900, .failed = 900};
  EXPECT_FALSE(Look(kKiB, streams));
  streams.started += 300;
  streams.failed += 300;
  EXPECT_EQ(Look(kKiB, streams), EndReason::kResets);
}

TEST_F(ConnectionRecordTest, ResetsThatGrpcHasNotProcessedYetCountToo) {
  EXPECT_EQ(Look(kKiB, StreamCounts{.started = 1'500}), EndReason::kResets);
}

TEST_F(ConnectionRecordTest, AnsweredCallsThatGrpcStillHasOpenAreNoResets) {
  EXPECT_FALSE(Look(kKiB, StreamCounts{.started = 5'000, .succeeded = 10, .messages = 5'000}));
}

TEST_F(ConnectionRecordTest, ResetsBelowTheRateAreNoOffence) {
  StreamCounts streams;
  for (int i = 0; i < 1'000; ++i) {
    streams.started += 19;
    streams.failed += 19;
    ASSERT_FALSE(Look(kKiB, streams)) << i;
  }
}

TEST_F(ConnectionRecordTest, AStalledRequestIsAnOffence) {
  const StreamCounts one{.started = 1};
  for (int i = 0; i < 200; ++i) ASSERT_FALSE(Look(10, one)) << i;
  now_ += milliseconds(100);
  EXPECT_EQ(Look(10, one), EndReason::kStalled);
}

TEST_F(ConnectionRecordTest, ASlowUploadAndAnOpenWatchAreNotStalled) {
  const StreamCounts upload{.started = 1};
  for (int i = 0; i < 1'000; ++i) ASSERT_FALSE(Look(200, upload)) << i;
  const StreamCounts watcher{.started = 1, .messages = 1};
  for (int i = 0; i < 1'000; ++i) ASSERT_FALSE(Look(1, watcher)) << i;
}

TEST_F(ConnectionRecordTest, CancelledUploadsAreDeductedUpToALimit) {
  StreamCounts streams{.started = 51};
  // Fifty uploads of 1 MiB are cancelled while one stays open.
  EXPECT_FALSE(Look(50 * kMiB, streams));
  streams.failed = 50;
  EXPECT_FALSE(Look(0, streams));
  EXPECT_LT(record_.unfinished(), kMiB);
  // Resetting a stream from time to time buys nothing for an endless block of headers.
  std::optional<EndReason> ended;
  for (int i = 0; i < 20 && !ended; ++i) {
    streams.started += 10;
    streams.failed += 10;
    ended = Look(10 * kMiB, streams);
  }
  EXPECT_EQ(ended, EndReason::kUnfinished);
}

TEST_F(ConnectionRecordTest, AConnectionWithoutAnOpenStreamIsIdle) {
  EXPECT_FALSE(Look(kKiB, StreamCounts{.started = 1, .messages = 1}));
  EXPECT_FALSE(record_.idle_since());
  EXPECT_FALSE(Look(kKiB, StreamCounts{.started = 1, .succeeded = 1, .messages = 1}));
  EXPECT_EQ(record_.idle_since(), now_);
  EXPECT_TRUE(record_.has_asked());
}

TEST_F(ConnectionRecordTest, InvalidRequestsAreLimitedByRateAndBurst) {
  StreamCounts streams;
  const auto look = [&](uint64_t invalid) {
    ++streams.started, ++streams.messages, ++streams.succeeded;
    return Look(2 * kMiB + invalid, streams, 2 * kMiB + invalid, invalid);
  };
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(look(3 * kMiB / 2)) << i;
  EXPECT_FALSE(look(30 * kMiB)) << "at once";
  EXPECT_EQ(look(6 * kMiB), EndReason::kInvalid);
}

TEST_F(ConnectionRecordTest, ValidRequestsAreNotLimited) {
  StreamCounts streams;
  for (int i = 0; i < 100; ++i) {
    ++streams.started, ++streams.messages, ++streams.succeeded;
    ASSERT_FALSE(Look(200 * kMiB, streams, 200 * kMiB)) << i;
  }
}

}  // namespace
}  // namespace lodgekv::server
