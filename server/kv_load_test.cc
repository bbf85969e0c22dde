// Clients that keep to the rules and ask for much: nothing that bounds others is in their way.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {
namespace {

// Calls of one connection, all at once, and their ends.
class PutsAtOnce {
 public:
  PutsAtOnce(TestDaemon& daemon, size_t count, const std::string& value) : calls_(count) {
    for (size_t i = 0; i < count; ++i) {
      Call& call = calls_[i];
      call.request = MakePut("key" + std::to_string(i), value);
      SetDeadline(call.context, std::chrono::seconds(60));
      daemon.kv().async()->Put(
          &call.context, &call.request, &call.response,
          [this, &call](grpc::Status status) { End(call, std::move(status)); });
    }
  }

  // By code, when all have ended.
  int CountOf(grpc::StatusCode code) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return ends_ == calls_.size(); });
    int count = 0;
    for (const Call& call : calls_) count += call.status.error_code() == code ? 1 : 0;
    return count;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::PutRequest request;
    v1::PutResponse response;
    grpc::Status status;
  };

  void End(Call& call, grpc::Status status) {
    const std::lock_guard lock(mutex_);
    call.status = std::move(status);
    ++ends_;
    ended_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Call> calls_;
  size_t ends_ = 0;
};

// Their frames are interleaved, so that most of their bytes are here before the first is whole.
TEST(KvLoad, ManyLargePutsAtOnceAreAllDone) {
  constexpr size_t kPuts = 128;
  TestDaemon daemon;
  for (int round = 0; round < 3; ++round) {
    PutsAtOnce puts(daemon, kPuts, std::string(1 << 20, 'v'));
    EXPECT_EQ(puts.CountOf(grpc::StatusCode::UNAVAILABLE), 0) << "the connection was ended";
    EXPECT_EQ(
        puts.CountOf(grpc::StatusCode::OK) + puts.CountOf(grpc::StatusCode::RESOURCE_EXHAUSTED),
        static_cast<int>(kPuts));
  }
}

}  // namespace
}  // namespace lodgekv::server::testing
