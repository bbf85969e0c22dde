// Sessions of the client against a service in this process that does what the test says.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/lodgekv_client.h"
#include "client/reported_error.h"
#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::client {
namespace {

using Stream = grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>;
using Script = std::function<grpc::Status(grpc::ServerContext&, Stream&)>;

constexpr absl::Duration kLongEnough = absl::Seconds(30);
constexpr absl::Duration kAMoment = absl::Milliseconds(100);

// The value of a get is its key with a mark; the version of a put is that of its message.
v1::SessionResponse AnswerTo(const v1::SessionRequest& request) {
  v1::SessionResponse response;
  response.set_id(request.id());
  for (const v1::Operation& operation : request.operations()) {
    v1::OperationResult& result = *response.add_results();
    if (operation.kind() == v1::OPERATION_KIND_PUT) result.set_version(request.id());
    if (operation.kind() == v1::OPERATION_KIND_DELETE) result.set_found(true);
    if (operation.kind() != v1::OPERATION_KIND_GET) continue;
    result.set_found(true);
    result.set_value(operation.key() + "!");
    result.set_version(7);
    result.mutable_expire_time()->set_seconds(1'700'000'000);
  }
  return response;
}

grpc::Status AnswerAll(grpc::ServerContext&, Stream& stream) {
  v1::SessionRequest request;
  while (stream.Read(&request)) stream.Write(AnswerTo(request));
  return grpc::Status::OK;
}

v1::SessionRequest Receive(Stream& stream) {
  v1::SessionRequest request;
  EXPECT_TRUE(stream.Read(&request));
  return request;
}

class ScriptedService final : public v1::KvService::Service {
 public:
  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override {
    return script(*context, *stream);
  }

  Script script = AnswerAll;
};

using Results = absl::StatusOr<std::vector<SessionResult>>;

// What `done` of each message said, in the order in which they ran.
class Outcomes {
 public:
  SessionDone Done(std::string name) {
    return [this, name = std::move(name)](Results results) {
      const absl::MutexLock lock(&mutex_);
      names_.push_back(name);
      results_.push_back(std::move(results));
    };
  }

  std::vector<std::string> names() const {
    const absl::MutexLock lock(&mutex_);
    return names_;
  }
  size_t size() const { return names().size(); }
  Results operator[](size_t index) const {
    const absl::MutexLock lock(&mutex_);
    return results_.at(index);
  }
  void Await(size_t count) const {
    const absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]()
                            ABSL_NO_THREAD_SAFETY_ANALYSIS { return names_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), kLongEnough));
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::vector<Results> results_ ABSL_GUARDED_BY(mutex_);
};

class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    options_.server = absl::StrCat("127.0.0.1:", port);
  }
  ~SessionTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::unique_ptr<Session> Open(const Script& script, const SessionOptions& options = {}) {
    service_.script = script;
    return Client::Create(options_)->OpenSession(options);
  }

  absl::Status Put(Session& session, const std::string& key) {
    return session.Send({BatchOp{key, "v", {}}}, {}, outcomes_.Done(key));
  }

  ScriptedService service_;
  std::unique_ptr<grpc::Server> server_;
  ClientOptions options_;
  Outcomes outcomes_;
};

TEST_F(SessionTest, SendsEveryFieldOfAnOperation) {
  v1::SessionRequest seen;
  const auto session = Open([&](grpc::ServerContext& context, Stream& stream) {
    seen = Receive(stream);
    stream.Write(AnswerTo(seen));
    return AnswerAll(context, stream);
  });
  PutOptions options;
  options.condition.if_version = 5;
  options.ttl = absl::Milliseconds(1'250);
  ASSERT_TRUE(session
                  ->Send({BatchOp{std::string("p\0", 2), "v", options},
                          BatchOp{"d", std::nullopt, {}}, GetOp{"g"}},
                         {}, outcomes_.Done("message"))
                  .ok());
  EXPECT_TRUE(session->Finish().ok());
  ASSERT_EQ(seen.operations_size(), 3);
  EXPECT_EQ(seen.operations(0).kind(), v1::OPERATION_KIND_PUT);
  EXPECT_EQ(seen.operations(0).key(), std::string("p\0", 2));
  EXPECT_EQ(seen.operations(0).value(), "v");
  EXPECT_EQ(seen.operations(0).condition(), v1::CONDITION_IF_VERSION);
  EXPECT_EQ(seen.operations(0).if_version(), 5u);
  EXPECT_EQ(seen.operations(0).ttl().seconds(), 1);
  EXPECT_EQ(seen.operations(0).ttl().nanos(), 250'000'000);
  EXPECT_EQ(seen.operations(1).kind(), v1::OPERATION_KIND_DELETE);
  EXPECT_EQ(seen.operations(1).key(), "d");
  EXPECT_EQ(seen.operations(2).kind(), v1::OPERATION_KIND_GET);
  EXPECT_EQ(seen.operations(2).key(), "g");
  EXPECT_FALSE(seen.want_cost());
}

TEST_F(SessionTest, SendsTheAtomicFlagOfItsMessageAlone) {
  std::vector<bool> atomic;
  const auto session = Open([&](grpc::ServerContext&, Stream& stream) {
    v1::SessionRequest request;
    while (stream.Read(&request)) {
      atomic.push_back(request.atomic());
      stream.Write(AnswerTo(request));
    }
    return grpc::Status::OK;
  });
  const std::vector<SessionOp> operations{BatchOp{"k", "v", {}}};
  EXPECT_TRUE(session->Send(operations, {.atomic = true}, outcomes_.Done("all or none")).ok());
  EXPECT_TRUE(session->Send(operations, {}, outcomes_.Done("each by itself")).ok());
  EXPECT_TRUE(session->Finish().ok());
  EXPECT_THAT(atomic, testing::ElementsAre(true, false));
}

TEST_F(SessionTest, ReadsTheResultOfEachKind) {
  const auto session = Open(AnswerAll);
  EXPECT_TRUE(session
                  ->Send({GetOp{"g"}, BatchOp{"p", "v", {}}, BatchOp{"d", std::nullopt, {}}}, {},
                         outcomes_.Done("message"))
                  .ok());
  EXPECT_TRUE(session->Finish().ok());
  const Results results = outcomes_[0];
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 3u);
  const GetResult& got = (*results)[0].value();
  EXPECT_TRUE(got.found);
  EXPECT_EQ(got.value, "g!");
  EXPECT_EQ(got.version, 7u);
  EXPECT_EQ(got.expire_time, absl::FromUnixSeconds(1'700'000'000));
  EXPECT_FALSE((*results)[1]->found);
  EXPECT_EQ((*results)[1]->version, 1u);
  EXPECT_TRUE((*results)[2]->found);
}

TEST_F(SessionTest, AnEmptyMessageHasNoResults) {
  const auto session = Open(AnswerAll);
  EXPECT_TRUE(session->Send({}, {}, outcomes_.Done("empty")).ok());
  EXPECT_TRUE(session->Finish().ok());
  EXPECT_TRUE(outcomes_[0].value().empty());
}

TEST_F(SessionTest, MessagesEndInTheOrderSent) {
  constexpr size_t kMessages = 500;
  const auto session = Open(AnswerAll);
  std::vector<std::string> sent;
  for (size_t i = 0; i < kMessages; ++i) {
    sent.push_back(absl::StrCat("k", i));
    ASSERT_TRUE(session->Send({GetOp{sent.back()}}, {}, outcomes_.Done(sent.back())).ok());
  }
  EXPECT_TRUE(session->Finish().ok());
  EXPECT_EQ(outcomes_.names(), sent);
  for (size_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(outcomes_[i].value().at(0)->value, sent[i] + "!");
  }
}

TEST_F(SessionTest, AFailedOperationKeepsCodeMessageAndDetails) {
  const auto session = Open([](grpc::ServerContext& context, Stream& stream) {
    v1::SessionResponse response = AnswerTo(Receive(stream));
    *response.mutable_results(0)->mutable_error() =
        ReportedError(grpc::StatusCode::FAILED_PRECONDITION, "CONDITION_FAILED");
    stream.Write(response);
    return AnswerAll(context, stream);
  });
  EXPECT_TRUE(
      session->Send({BatchOp{"a", "v", {}}, BatchOp{"b", "v", {}}}, {}, outcomes_.Done("message"))
          .ok());
  EXPECT_TRUE(session->Finish().ok());
  const Results results = outcomes_[0];
  ASSERT_TRUE(results.ok()) << results.status();
  const absl::Status failed = results->at(0).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(failed.message(), "said by the server");
  EXPECT_EQ(ErrorOf(failed).reason, "CONDITION_FAILED");
  EXPECT_EQ(ErrorOf(failed).metadata.at("limit"), "4096");
  EXPECT_FALSE(WriteIsUnknown(failed));
  EXPECT_TRUE(results->at(1).ok());
}

TEST_F(SessionTest, ARefusedMessageDoesNotEndTheSession) {
  const auto session = Open([](grpc::ServerContext& context, Stream& stream) {
    v1::SessionResponse refusal;
    refusal.set_id(Receive(stream).id());
    *refusal.mutable_error() =
        ReportedError(grpc::StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_BYTES");
    stream.Write(refusal);
    return AnswerAll(context, stream);
  });
  EXPECT_TRUE(Put(*session, "refused").ok());
  EXPECT_TRUE(Put(*session, "applied").ok());
  EXPECT_TRUE(session->Finish().ok());
  const absl::Status refused = outcomes_[0].status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorOf(refused).reason, "TOO_MANY_BYTES");
  EXPECT_EQ(ErrorOf(refused).retry_after, absl::Milliseconds(250));
  EXPECT_TRUE(outcomes_[1].ok());
}

TEST_F(SessionTest, AnEarlyEndReachesEveryUnansweredMessage) {
  const std::vector<std::pair<grpc::Status, bool>> cases{
      {ErrorWith(grpc::StatusCode::UNAVAILABLE, "DRAINING"), false},
      {ErrorWith(grpc::StatusCode::UNAVAILABLE, "POOL_GONE"), true},
      {grpc::Status(grpc::StatusCode::UNAVAILABLE, "reset"), true},
      {grpc::Status(grpc::StatusCode::CANCELLED, "not read in time"), true},
      // By gRPC: one message was too large for it, and those before may have been applied.
      {grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "larger than max"), true},
      {grpc::Status(grpc::StatusCode::INTERNAL, "RST_STREAM"), true},
      // A server that ends without a reason: nothing is known of what it has not answered.
      {grpc::Status::OK, true},
  };
  for (const auto& [end, unknown] : cases) {
    Outcomes outcomes;
    const auto session = Open([&, status = end](grpc::ServerContext&, Stream& stream) {
      stream.Write(AnswerTo(Receive(stream)));
      Receive(stream);
      Receive(stream);
      return status;
    });
    for (const char* name : {"answered", "b", "c"}) {
      EXPECT_TRUE(session->Send({BatchOp{"k", "v", {}}}, {}, outcomes.Done(name)).ok());
    }
    outcomes.Await(3);
    EXPECT_THAT(outcomes.names(), testing::ElementsAre("answered", "b", "c"));
    EXPECT_TRUE(outcomes[0].ok());
    const absl::Status status = outcomes[1].status();
    EXPECT_EQ(outcomes[2].status(), status);
    if (!end.ok()) {
      EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(end.error_code()));
      EXPECT_EQ(status.message(), end.error_message());
    }
    EXPECT_EQ(WriteIsUnknown(status), unknown) << status;
    EXPECT_EQ(session->Send({GetOp{"k"}}, {}, outcomes.Done("later")), status);
    EXPECT_EQ(session->Finish(), status);
    EXPECT_EQ(session->Send({GetOp{"k"}}, {}, outcomes.Done("later")), status);
    EXPECT_EQ(outcomes.size(), 3u);
  }
}

TEST_F(SessionTest, ABrokenConnectionLeavesWritesUnknown) {
  absl::Notification received;
  const auto session = Open([&](grpc::ServerContext&, Stream& stream) {
    Receive(stream);
    received.Notify();
    v1::SessionRequest request;
    stream.Read(&request);
    return grpc::Status::OK;
  });
  EXPECT_TRUE(Put(*session, "k").ok());
  ASSERT_TRUE(received.WaitForNotificationWithTimeout(kLongEnough));
  server_->Shutdown(std::chrono::system_clock::now());
  outcomes_.Await(1);
  EXPECT_TRUE(WriteIsUnknown(outcomes_[0].status())) << outcomes_[0].status();
  EXPECT_EQ(session->Finish(), outcomes_[0].status());
}

TEST_F(SessionTest, AnAnswerThatDoesNotFitEndsTheSession) {
  const std::vector<std::function<void(v1::SessionResponse&)>> mistakes{
      [](auto& response) { response.set_id(2); },
      [](auto& response) { response.add_results(); },
      [](auto& response) { response.clear_results(); },
  };
  for (const auto& mistake : mistakes) {
    Outcomes outcomes;
    const auto session = Open([&](grpc::ServerContext& context, Stream& stream) {
      v1::SessionResponse response = AnswerTo(Receive(stream));
      mistake(response);
      stream.Write(response);
      return AnswerAll(context, stream);
    });
    EXPECT_TRUE(session->Send({BatchOp{"k", "v", {}}}, {}, outcomes.Done("k")).ok());
    EXPECT_TRUE(WriteIsUnknown(session->Finish()));
    EXPECT_EQ(outcomes[0].status(), session->Finish());
  }
}

TEST_F(SessionTest, SeveralThreadsMaySend) {
  constexpr size_t kThreads = 4;
  constexpr size_t kMessages = 200;
  const auto session = Open(AnswerAll, {.unanswered = 16});
  std::vector<std::string> ended[kThreads];
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kMessages; ++i) {
        const auto done = [&, t](Results results) {
          ended[t].push_back(results.value().at(0)->value);
        };
        EXPECT_TRUE(session->Send({GetOp{absl::StrCat(t, ".", i)}}, {}, done).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(session->Finish().ok());
  for (size_t t = 0; t < kThreads; ++t) {
    ASSERT_EQ(ended[t].size(), kMessages);
    for (size_t i = 0; i < kMessages; ++i) EXPECT_EQ(ended[t][i], absl::StrCat(t, ".", i, "!"));
  }
}

TEST_F(SessionTest, FinishMayBeCalledAgain) {
  const auto session = Open(AnswerAll);
  EXPECT_TRUE(Put(*session, "k").ok());
  std::thread other([&] { EXPECT_TRUE(session->Finish().ok()); });
  EXPECT_TRUE(session->Finish().ok());
  other.join();
  EXPECT_EQ(outcomes_.size(), 1u);
  EXPECT_TRUE(session->Finish().ok());
  const absl::Status late = Put(*session, "late");
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(WriteIsUnknown(late));
  EXPECT_EQ(outcomes_.size(), 1u);
}

TEST_F(SessionTest, TheDestructorWaitsForTheAnswers) {
  auto session = Open([](grpc::ServerContext&, Stream& stream) {
    std::vector<v1::SessionRequest> requests;
    for (v1::SessionRequest request; stream.Read(&request);) requests.push_back(request);
    absl::SleepFor(kAMoment);
    for (const v1::SessionRequest& request : requests) stream.Write(AnswerTo(request));
    return grpc::Status::OK;
  });
  for (const char* key : {"a", "b", "c"}) EXPECT_TRUE(Put(*session, key).ok());
  session.reset();
  EXPECT_THAT(outcomes_.names(), testing::ElementsAre("a", "b", "c"));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(outcomes_[i].ok());
}

TEST_F(SessionTest, SendWaitsForAnswersAtItsLimit) {
  absl::Notification go_on;
  const auto session = Open(
      [&](grpc::ServerContext& context, Stream& stream) {
        go_on.WaitForNotification();
        return AnswerAll(context, stream);
      },
      {.unanswered = 4});
  std::atomic<size_t> sent = 0;
  std::thread sender([&] {
    for (; sent < 10; ++sent) EXPECT_TRUE(Put(*session, "k").ok());
  });
  absl::SleepFor(kAMoment);
  EXPECT_LE(sent, 4u);
  go_on.Notify();
  sender.join();
  EXPECT_TRUE(session->Finish().ok());
  EXPECT_EQ(outcomes_.size(), 10u);
}

TEST_F(SessionTest, SendWaitsWhileTheServerReceivesNothing) {
  // Together more than any window of HTTP/2 here.
  constexpr size_t kMessages = 16;
  const std::string value(size_t{1} << 20, 'v');
  for (const bool ends_early : {false, true}) {
    Outcomes outcomes;
    absl::Notification go_on;
    const auto session = Open([&](grpc::ServerContext& context, Stream& stream) {
      go_on.WaitForNotification();
      if (ends_early) return ErrorWith(grpc::StatusCode::UNAVAILABLE, "DRAINING");
      return AnswerAll(context, stream);
    });
    std::atomic<size_t> sent = 0;
    std::thread sender([&] {
      while (sent < kMessages &&
             session->Send({BatchOp{"k", value, {}}}, {}, outcomes.Done("k")).ok()) {
        ++sent;
      }
    });
    absl::SleepFor(kAMoment);
    EXPECT_LT(sent, kMessages);
    go_on.Notify();
    sender.join();
    EXPECT_EQ(session->Finish().ok(), !ends_early);
    EXPECT_EQ(outcomes.size(), sent);
  }
}

TEST_F(SessionTest, EndsAtItsTimeout) {
  const auto session = Open(
      [](grpc::ServerContext&, Stream& stream) {
        for (v1::SessionRequest request; stream.Read(&request);) continue;
        return grpc::Status::OK;
      },
      {.timeout = absl::Seconds(1)});
  EXPECT_TRUE(Put(*session, "k").ok());
  outcomes_.Await(1);
  const absl::Status status = outcomes_[0].status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(WriteIsUnknown(status));
}

TEST_F(SessionTest, HasNoTimeoutUnlessAskedFor) {
  options_.timeout = absl::Milliseconds(1);
  const auto session = Open(AnswerAll);
  absl::SleepFor(kAMoment);
  EXPECT_TRUE(Put(*session, "k").ok());
  EXPECT_TRUE(session->Finish().ok());
  EXPECT_TRUE(outcomes_[0].ok());
}

TEST_F(SessionTest, TheCostOfEachMessageIsHandedOnBeforeItIsDone) {
  std::vector<std::string> events;  // of the session's thread
  options_.on_cost = [&](const v1::Cost& cost) {
    events.push_back(absl::StrCat("cost ", cost.share().lines_flushed()));
  };
  const auto session = Open([](grpc::ServerContext&, Stream& stream) {
    for (v1::SessionRequest request; stream.Read(&request);) {
      v1::SessionResponse response = AnswerTo(request);
      if (request.want_cost()) response.mutable_cost()->mutable_share()->set_lines_flushed(9);
      if (request.id() == 2) {
        *response.mutable_error() =
            ReportedError(grpc::StatusCode::FAILED_PRECONDITION, "CONDITION_FAILED");
      }
      if (request.id() == 3) response.clear_cost();
      stream.Write(response);
    }
    return grpc::Status::OK;
  });
  for (const char* name : {"a", "refused", "without"}) {
    const auto done = [&, name](const Results&) { events.emplace_back(name); };
    EXPECT_TRUE(session->Send({BatchOp{"k", "v", {}}}, {}, done).ok());
  }
  EXPECT_TRUE(session->Finish().ok());
  EXPECT_THAT(events, testing::ElementsAre("cost 9", "a", "cost 9", "refused", "without"));
}

TEST(SessionWithoutServerTest, HasEnded) {
  ClientOptions options;
  options.server = "unix:/nonexistent/lodgekv.sock";
  const auto session = Client::Create(options)->OpenSession({});
  const absl::Status status = session->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(session->Send({GetOp{"k"}}, {}, [](const auto&) { FAIL(); }), status);
}

}  // namespace
}  // namespace lodgekv::client
