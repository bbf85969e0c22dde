// Sessions over a real connection.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/testing/gate.h"
#include "server/testing/test_session.h"

namespace lodgekv::server::testing {
namespace {

constexpr v1::OperationKind kPut = v1::OPERATION_KIND_PUT;
constexpr v1::OperationKind kGet = v1::OPERATION_KIND_GET;
constexpr v1::OperationKind kDelete = v1::OPERATION_KIND_DELETE;

grpc::Status ToStatus(const google::rpc::Status& error) {
  return {static_cast<grpc::StatusCode>(error.code()), error.message(), error.SerializeAsString()};
}

TEST(KvSessionTest, AnswersInTheOrderSent) {
  constexpr int kMessages = 500;
  TestDaemon daemon;
  TestSession session(daemon);
  std::jthread sender([&] {
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(session.Send(OneOperation(1'000 + i, kPut, "key" + std::to_string(i), "v")));
    }
    session.SendNoMore();
  });
  for (int i = 0; i < kMessages; ++i) {
    const auto response = session.Receive();
    ASSERT_TRUE(response);
    ASSERT_EQ(response->id(), 1'000 + i);
    ASSERT_EQ(response->results_size(), 1);
    EXPECT_GT(response->results(0).version(), 0);
  }
  sender.join();
  EXPECT_TRUE(session.AwaitEnd().ok());
  EXPECT_EQ(daemon.ValueOf("key499"), "v");
}

TEST(KvSessionTest, AnswersEachKindOfOperation) {
  TestDaemon daemon;
  TestSession session(daemon);
  v1::SessionRequest request;
  AddOperation(request, kPut, "a", "1")->mutable_ttl()->set_seconds(5);
  AddOperation(request, kGet, "a");
  AddOperation(request, kGet, "none");
  AddOperation(request, kDelete, "none");
  AddOperation(request, kPut, "a", "2")->set_condition(v1::CONDITION_IF_PRESENT);
  const v1::SessionResponse response = session.Ask(request);
  ASSERT_EQ(response.results_size(), 5);
  EXPECT_EQ(response.results(1).value(), "1");
  EXPECT_EQ(response.results(1).version(), response.results(0).version());
  EXPECT_TRUE(response.results(1).has_expire_time());
  EXPECT_FALSE(response.results(2).found());
  EXPECT_FALSE(response.results(3).found());
  EXPECT_TRUE(response.results(4).found());
  EXPECT_GT(response.results(4).version(), response.results(0).version());
  EXPECT_TRUE(session.Ask({}).results().empty());
  EXPECT_TRUE(session.End().ok());
}

TEST(KvSessionTest, OperationsOnOneKeyTakeEffectInTheOrderSent) {
  TestDaemon daemon;
  TestSession session(daemon);
  v1::SessionRequest request;
  AddOperation(request, kGet, "k");
  AddOperation(request, kPut, "k", "1");
  AddOperation(request, kPut, "other", "x");
  AddOperation(request, kGet, "k");
  AddOperation(request, kPut, "k", "2");
  AddOperation(request, kPut, "k", "3");
  AddOperation(request, kGet, "k");
  AddOperation(request, kGet, "other");
  AddOperation(request, kDelete, "k");
  AddOperation(request, kGet, "k");
  const v1::SessionResponse response = session.Ask(request);
  ASSERT_EQ(response.results_size(), 10);
  EXPECT_FALSE(response.results(0).found());
  EXPECT_EQ(response.results(3).value(), "1");
  EXPECT_EQ(response.results(6).value(), "3");
  EXPECT_EQ(response.results(7).value(), "x");
  EXPECT_TRUE(response.results(8).found());
  EXPECT_FALSE(response.results(9).found());
}

// Several sessions at a time, each with keys of its own, messages of all kinds and sizes, and
// answers that are checked against a model.
void ExpectSessionsToAgreeWithAModel(TestDaemon& daemon) {
  const auto converse = [&daemon](uint32_t number) {
    std::mt19937 random(number);
    std::map<std::string, std::string> model;
    TestSession session(daemon, std::chrono::seconds(120));
    std::mutex mutex;
    std::vector<std::vector<std::string>> expected;  // of each message; guarded by mutex
    constexpr int kMessages = 600;
    std::jthread sender([&] {
      for (int i = 0; i < kMessages; ++i) {
        v1::SessionRequest request;
        request.set_id(i);
        request.set_atomic(random() % 10 == 0);
        std::vector<std::string> answers;
        const size_t operations = random() % 8 == 0 ? random() % 300 : random() % 6;
        for (size_t k = 0; k < operations; ++k) {
          const std::string key =
              std::to_string(number) + ":" + std::to_string(request.atomic() ? k : random() % 20);
          const uint32_t kind = random() % 3;
          if (kind == 0 && !request.atomic()) {
            AddOperation(request, kGet, key);
            answers.push_back(model.contains(key) ? model[key] : "(none)");
          } else if (kind == 1) {
            AddOperation(request, kDelete, key);
            answers.push_back(model.erase(key) != 0 ? "found" : "(none)");
          } else {
            const std::string value(random() % 40, static_cast<char>('a' + random() % 26));
            AddOperation(request, kPut, key, value);
            model[key] = value;
            answers.push_back("put");
          }
        }
        {
          const std::lock_guard lock(mutex);
          expected.push_back(answers);
        }
        ASSERT_TRUE(session.Send(request));
      }
      session.SendNoMore();
    });
    for (int i = 0; i < kMessages; ++i) {
      const auto response = session.Receive();
      ASSERT_TRUE(response);
      ASSERT_EQ(response->id(), i);
      const std::lock_guard lock(mutex);
      ASSERT_EQ(response->results_size(), static_cast<int>(expected[i].size()));
      for (int k = 0; k < response->results_size(); ++k) {
        const v1::OperationResult& result = response->results(k);
        ASSERT_FALSE(result.has_error()) << result.error().message();
        const std::string& answer = expected[i][k];
        if (answer == "put") {
          EXPECT_GT(result.version(), 0);
        } else if (answer == "found" || answer == "(none)") {
          EXPECT_EQ(result.found(), answer == "found");
        } else {
          EXPECT_EQ(result.value(), answer) << i << " " << k;
        }
      }
    }
    sender.join();
    EXPECT_TRUE(session.AwaitEnd().ok());
  };
  std::vector<std::thread> clients;
  for (uint32_t number = 1; number <= 4; ++number) clients.emplace_back(converse, number);
  for (std::thread& client : clients) client.join();
}

TEST(KvSessionTest, SessionsAgreeWithAModel) {
  TestDaemon daemon;
  ExpectSessionsToAgreeWithAModel(daemon);
}

// Where messages are served in several parts.
TEST(KvSessionTest, SessionsAgreeWithAModelOnAFile) {
  auto faults = std::make_shared<Faults>();
  faults->long_fences = true;
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  ExpectSessionsToAgreeWithAModel(daemon);
}

TEST(KvSessionTest, AnAtomicMessageIsAppliedWholeOrNot) {
  TestDaemon daemon;
  TestSession session(daemon);
  v1::SessionRequest request;
  request.set_id(7);
  request.set_atomic(true);
  AddOperation(request, kPut, "a", "1");
  AddOperation(request, kPut, "b", "2")->set_condition(v1::CONDITION_IF_PRESENT);
  const v1::SessionResponse refused = session.Ask(request);
  EXPECT_EQ(refused.id(), 7);
  EXPECT_EQ(refused.results_size(), 0);
  EXPECT_EQ(CodeAndReason(ToStatus(refused.error())), "FAILED_PRECONDITION CONDITION_FAILED");
  EXPECT_EQ(DetailsOf(ToStatus(refused.error())).info.metadata().at("operation"), "1");
  EXPECT_EQ(daemon.ValueOf("a"), "(none)");
  request.mutable_operations(1)->set_condition(v1::CONDITION_IF_ABSENT);
  EXPECT_EQ(session.Ask(request).results_size(), 2);
  EXPECT_EQ(daemon.ValueOf("b"), "2");
}

TEST(KvSessionTest, AFailedOperationDoesNotHinderTheOthers) {
  TestDaemon daemon;
  TestSession session(daemon);
  v1::SessionRequest request;
  AddOperation(request, kPut, "a", "1");
  AddOperation(request, kPut, "missing", "2")->set_condition(v1::CONDITION_IF_PRESENT);
  AddOperation(request, kPut, "c", "3");
  const v1::SessionResponse response = session.Ask(request);
  ASSERT_EQ(response.results_size(), 3);
  EXPECT_FALSE(response.results(0).has_error());
  EXPECT_EQ(CodeAndReason(ToStatus(response.results(1).error())),
            "FAILED_PRECONDITION CONDITION_FAILED");
  EXPECT_FALSE(response.results(2).has_error());
  EXPECT_EQ(daemon.ValueOf("c"), "3");
}

TEST(KvSessionTest, AFullPoolRefusesPutsByThemselves) {
  auto faults = std::make_shared<Faults>();
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  ASSERT_TRUE(daemon.Put("old", "v").ok());
  faults->puts = Outcome::kPoolFull;
  TestSession session(daemon);
  v1::SessionRequest request;
  AddOperation(request, kPut, "a", "1");
  AddOperation(request, kDelete, "old");
  const v1::SessionResponse response = session.Ask(request);
  ASSERT_EQ(response.results_size(), 2);
  EXPECT_EQ(CodeAndReason(ToStatus(response.results(0).error())), "RESOURCE_EXHAUSTED POOL_FULL");
  EXPECT_TRUE(response.results(1).found());
  request.set_atomic(true);
  EXPECT_EQ(CodeAndReason(ToStatus(session.Ask(request).error())), "RESOURCE_EXHAUSTED POOL_FULL");
  EXPECT_TRUE(daemon.daemon().state().pool_full());
}

// What is wrong with a message is said in its answer, and the session goes on.
TEST(KvSessionTest, AnInvalidMessageIsRefusedAlone) {
  TestDaemon daemon;
  TestSession session(daemon);
  const auto reason = [&](const v1::SessionRequest& request) {
    const v1::SessionResponse response = session.Ask(request);
    EXPECT_EQ(response.id(), request.id());
    EXPECT_EQ(response.results_size(), 0);
    return CodeAndReason(ToStatus(response.error()));
  };
  EXPECT_EQ(reason(OneOperation(1, kPut, "", "v")), "INVALID_ARGUMENT KEY_EMPTY");
  v1::SessionRequest get = OneOperation(2, kGet, "k", "v");
  EXPECT_EQ(reason(get), "INVALID_ARGUMENT VALUE_WITHOUT_PUT");
  get.mutable_operations(0)->clear_value();
  get.mutable_operations(0)->set_condition(v1::CONDITION_IF_PRESENT);
  EXPECT_EQ(reason(get), "INVALID_ARGUMENT CONDITION_WITHOUT_WRITE");
  get = OneOperation(3, kGet, "k");
  get.mutable_operations(0)->mutable_ttl()->set_seconds(1);
  EXPECT_EQ(reason(get), "INVALID_ARGUMENT TTL_WITHOUT_PUT");
  get = OneOperation(4, kGet, "k");
  get.set_atomic(true);
  EXPECT_EQ(reason(get), "INVALID_ARGUMENT BAD_KIND");
  v1::SessionRequest twice = OneOperation(5, kPut, "k", "v");
  AddOperation(twice, kDelete, "k");
  EXPECT_EQ(session.Ask(twice).results_size(), 2);
  twice.set_atomic(true);
  EXPECT_EQ(reason(twice), "INVALID_ARGUMENT KEY_TWICE");
  v1::SessionRequest many;
  many.set_id(6);
  for (int i = 0; i < 1'025; ++i) AddOperation(many, kGet, "k");
  EXPECT_EQ(reason(many), "INVALID_ARGUMENT BATCH_TOO_LONG");
  EXPECT_EQ(session.Ask(OneOperation(8, kGet, "k")).id(), 8);
  EXPECT_TRUE(session.End().ok());
}

// Sent as bytes: no client of protobuf's would.
TEST(KvSessionTest, BytesThatAreNoMessageAreRefusedAlone) {
  TestDaemon daemon;
  grpc::GenericStub stub(daemon.data_channel());
  grpc::ClientContext context;
  SetDeadline(context);
  grpc::CompletionQueue queue;
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto stream = stub.PrepareCall(&context, "/lodgekv.v1.KvService/Session", &queue);
  stream->StartCall(nullptr);
  ASSERT_TRUE(await());
  for (const std::string text : {"\xff\xff\xff", "\x08\x05"}) {
    const grpc::Slice slice(text);
    stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    ASSERT_TRUE(await());
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    ASSERT_TRUE(await());
    v1::SessionResponse response;
    ASSERT_TRUE(
        grpc::SerializationTraits<v1::SessionResponse>::Deserialize(&answer, &response).ok());
    EXPECT_EQ(response.id(), text.size() == 2 ? 5 : 0);
    EXPECT_EQ(response.has_error(), text.size() != 2);
  }
}

// A store on a file, in which the first write waits at the gate.
class SlowStore {
 public:
  explicit SlowStore(Config config = TestConfig()) {
    auto faults = std::make_shared<Faults>();
    faults->long_fences = true;
    faults->on_write = [this](size_t operations) {
      groups_.push_back(operations);
      gate_.Pass();
    };
    config.threads = 1;
    daemon_.emplace(config, HooksOf(faults));
  }
  ~SlowStore() { gate_.Open(); }

  TestDaemon& daemon() { return *daemon_; }
  Gate& gate() { return gate_; }
  uint64_t InFlight() { return daemon_->daemon().state().admission().operations(); }
  // The sizes of the groups of writes, once all are applied.
  const std::vector<size_t>& groups() const { return groups_; }

 private:
  Gate gate_;
  std::vector<size_t> groups_;
  std::optional<TestDaemon> daemon_;
};

// Until their answers are read they take memory, however little was sent.
TEST(KvSessionTest, RefusedMessagesCountInTheLimits) {
  SlowStore store;
  TestSession session(store.daemon());
  ASSERT_TRUE(session.Send(OneOperation(0, kPut, "k", "v")));
  for (int i = 1; i <= 5; ++i) ASSERT_TRUE(session.Send(OneOperation(i, kGet, "")));
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 6));
  EXPECT_GE(store.daemon().daemon().state().admission().bytes(), 5'000u);
  store.gate().Open();
  for (int i = 0; i <= 5; ++i) {
    const auto response = session.Receive();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->id(), static_cast<uint64_t>(i));
    EXPECT_EQ(response->has_error(), i > 0);
  }
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 0));
  EXPECT_EQ(store.daemon().daemon().state().admission().bytes(), 0u);
}

TEST(KvSessionTest, WritesOfManyMessagesShareASync) {
  SlowStore store;
  TestSession session(store.daemon());
  ASSERT_TRUE(session.Send(OneOperation(0, kPut, "first", "v")));
  store.gate().AwaitArrival();
  for (int i = 1; i <= 20; ++i) {
    ASSERT_TRUE(session.Send(OneOperation(i, i % 4 == 0 ? kGet : kPut, std::to_string(i), "")));
  }
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 21));
  store.gate().Open();
  for (int i = 0; i <= 20; ++i) ASSERT_EQ(session.Receive()->id(), i);
  EXPECT_EQ(store.groups(), (std::vector<size_t>{1, 15}));
}

TEST(KvSessionTest, WritesOfManySessionsShareASync) {
  SlowStore store;
  TestSession first(store.daemon());
  ASSERT_TRUE(first.Send(OneOperation(0, kPut, "first", "v")));
  store.gate().AwaitArrival();
  TestSession second(store.daemon());
  TestSession third(store.daemon());
  ASSERT_TRUE(second.Send(OneOperation(1, kPut, "second", "v")));
  ASSERT_TRUE(third.Send(OneOperation(2, kDelete, "third")));
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 3));
  store.gate().Open();
  EXPECT_EQ(second.Receive()->id(), 1);
  EXPECT_EQ(third.Receive()->id(), 2);
  EXPECT_EQ(store.groups(), (std::vector<size_t>{1, 2}));
}

// Each has a sync of its own: single writes do not wait for those of all.
TEST(KvSessionTest, AtomicMessagesOfManySessionsAreServedOneByOne) {
  constexpr int kSessions = 10;
  auto faults = std::make_shared<Faults>();
  faults->long_fences = true;
  Gate first;
  Gate second;
  std::vector<size_t> groups;
  faults->on_write = [&](size_t operations) {
    groups.push_back(operations);
    if (groups.size() == 1) first.Pass();
    if (groups.size() == 2) second.Pass();
  };
  Config config = TestConfig();
  config.threads = 1;
  TestDaemon daemon(config, HooksOf(faults));
  std::thread put([&] { EXPECT_TRUE(daemon.Put("first", "v").ok()); });
  first.AwaitArrival();
  std::vector<std::unique_ptr<TestSession>> sessions;
  for (int i = 0; i < kSessions; ++i) {
    v1::SessionRequest request;
    request.set_atomic(true);
    AddOperation(request, kPut, "a" + std::to_string(i), "v");
    AddOperation(request, kPut, "b" + std::to_string(i), "v");
    sessions.push_back(std::make_unique<TestSession>(daemon));
    ASSERT_TRUE(sessions.back()->Send(request));
  }
  EXPECT_TRUE(AwaitInFlight(daemon, 1 + 2 * kSessions));
  first.Open();
  put.join();
  second.AwaitArrival();
  std::thread single([&] { EXPECT_TRUE(daemon.Put("single", "v").ok()); });
  // Admitted, and then queued.
  EXPECT_TRUE(AwaitInFlight(daemon, 2 * kSessions + 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  second.Open();
  single.join();
  for (const auto& session : sessions) EXPECT_EQ(session->Receive()->results_size(), 2);
  ASSERT_EQ(groups.size(), 2 + kSessions);
  EXPECT_NE(groups.back(), 1) << "the single write goes between two atomic messages";
}

// Puts and gets of the same keys in turns take a sync for each: others do not wait for all of them.
TEST(KvSessionTest, ManyRoundsOfOneMessageLeaveOthersTheirTurn) {
  constexpr int kRounds = 50;
  SlowStore store;
  TestSession session(store.daemon());
  v1::SessionRequest request;
  for (int i = 0; i < kRounds; ++i) {
    AddOperation(request, kPut, "a", std::to_string(i));
    AddOperation(request, kPut, "b", std::to_string(-i));
    AddOperation(request, kGet, "a");
    AddOperation(request, kGet, "b");
  }
  request.set_want_cost(true);
  ASSERT_TRUE(session.Send(request));
  store.gate().AwaitArrival();
  std::thread single([&] { EXPECT_TRUE(store.daemon().Put("single", "v").ok()); });
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 4 * kRounds + 1));
  // Admitted, and then queued.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  store.gate().Open();
  single.join();
  const auto response = session.Receive();
  ASSERT_TRUE(response.has_value());
  ASSERT_EQ(response->results_size(), 4 * kRounds);
  for (int i = 0; i < kRounds; ++i) {
    EXPECT_EQ(response->results(4 * i + 2).value(), std::to_string(i));
    EXPECT_EQ(response->results(4 * i + 3).value(), std::to_string(-i));
  }
  EXPECT_EQ(response->cost().group_operations(), 4 * kRounds);
  EXPECT_TRUE(session.End().ok());
  ASSERT_EQ(store.groups().size(), kRounds + 1);
  const auto own = std::ranges::find(store.groups(), size_t{1});
  EXPECT_LE(own - store.groups().begin(), 2) << "behind the rounds of one turn";
}

// A session whose writes wait for the disk receives no more than it may have unanswered; others go
// on, and at last all is answered.
TEST(KvSessionTest, ReceivesNoMoreThanItMayHaveUnanswered) {
  constexpr int kMessages = 200;
  constexpr int kOperations = 100;
  constexpr size_t kValueBytes = 5'000;  // so that gRPC's buffers do not hold them all
  SlowStore store;
  TestSession session(store.daemon());
  std::atomic<int> sent{0};
  std::jthread sender([&] {
    for (int i = 0; i < kMessages; ++i) {
      v1::SessionRequest request;
      request.set_id(i);
      for (int k = 0; k < kOperations; ++k) {
        AddOperation(request, kPut, "key" + std::to_string(k), std::string(kValueBytes, 'v'));
      }
      ASSERT_TRUE(session.Send(request));
      ++sent;
    }
    session.SendNoMore();
  });
  // 4 MiB of requests are fewer than 1,024 operations, the other limit.
  EXPECT_TRUE(Await([&] { return store.InFlight() >= 900; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LE(store.InFlight(), 900);
  EXPECT_LT(sent, kMessages);
  EXPECT_EQ(store.daemon().ValueOf("none"), "(none)");
  store.gate().Open();
  for (int i = 0; i < kMessages; ++i) {
    const auto response = session.Receive();
    ASSERT_TRUE(response);
    ASSERT_EQ(response->id(), i);
    ASSERT_FALSE(response->has_error());
  }
  sender.join();
  EXPECT_TRUE(session.AwaitEnd().ok());
}

TEST(KvSessionTest, ManySmallMessagesAreLimitedByTheirOperations) {
  Config config = TestConfig();
  config.session_operations = 50;
  SlowStore store(config);
  TestSession session(store.daemon());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(session.Send(OneOperation(i, kPut, "k", "v")));
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 50));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(store.InFlight(), 50);
  store.gate().Open();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(session.Receive()->id(), i);
}

// The session's own work is no reason to refuse it: it waits. Others' is one.
TEST(KvSessionTest, WaitsForItsOwnWorkAndIsRefusedForThatOfOthers) {
  Config config = TestConfig();
  config.max_inflight_operations = 40;
  config.connection_share = 100;
  config.peer_share = 100;
  SlowStore store(config);
  const auto message = [](uint64_t id) {
    v1::SessionRequest request;
    request.set_id(id);
    for (int i = 0; i < 30; ++i) AddOperation(request, kPut, std::to_string(i), "v");
    return request;
  };
  TestSession session(store.daemon());
  ASSERT_TRUE(session.Send(message(1)));
  store.gate().AwaitArrival();
  ASSERT_TRUE(session.Send(message(2)));
  TestSession other(store.daemon());
  const v1::SessionResponse refused = other.Ask(message(3));
  EXPECT_EQ(refused.id(), 3);
  EXPECT_EQ(ToStatus(refused.error()).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(DetailsOf(ToStatus(refused.error())).has_retry);
  store.gate().Open();
  EXPECT_FALSE(session.Receive()->has_error());
  EXPECT_FALSE(session.Receive()->has_error());
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 0));
  EXPECT_FALSE(other.Ask(message(4)).has_error());
}

// In memory, and no part of what is in flight: beyond an eighth of max_inflight_size a message does
// not wait, but is refused in its turn.
TEST(KvSessionTest, WhatWaitsForTheSessionsOwnWorkIsLimited) {
  constexpr int kSessions = 4;
  constexpr size_t kValueBytes = 600'000;  // one fits into the eighth, two do not
  Config config = TestConfig();
  config.max_inflight_operations = kSessions;
  config.max_inflight_size = 8 * kMiB;
  config.connection_share = config.peer_share = 100;
  config.metrics_listen = "127.0.0.1:0";
  SlowStore store(config);
  const Admission& admission = store.daemon().daemon().state().admission();
  std::vector<std::unique_ptr<TestSession>> sessions;
  for (int i = 0; i < kSessions; ++i) {
    sessions.push_back(std::make_unique<TestSession>(store.daemon()));
    ASSERT_TRUE(sessions.back()->Send(OneOperation(0, kPut, std::to_string(i), "v")));
  }
  EXPECT_TRUE(AwaitInFlight(store.daemon(), kSessions));
  for (int i = 0; i < kSessions; ++i) {
    ASSERT_TRUE(
        sessions[i]->Send(OneOperation(1, kPut, std::to_string(i), std::string(kValueBytes, 'w'))));
  }
  const std::string refusals =
      R"(refusals_total{limit="max_inflight_operations"} )" + std::to_string(kSessions - 1) + "\n";
  std::string scraped;
  EXPECT_TRUE(Await([&] {
    scraped = Scrape(store.daemon().daemon().metrics_address());
    return scraped.find(refusals) != std::string::npos;
  })) << scraped;
  EXPECT_GE(admission.waiting_bytes(), kValueBytes);
  EXPECT_LE(admission.waiting_bytes(), kMiB);
  store.gate().Open();
  int applied = 0;
  for (const auto& session : sessions) {
    EXPECT_FALSE(session->Receive()->has_error());
    const v1::SessionResponse large = session->Receive().value();
    EXPECT_EQ(large.id(), 1);
    if (large.has_error()) {
      EXPECT_EQ(CodeAndReason(ToStatus(large.error())), "RESOURCE_EXHAUSTED TOO_MANY_OPERATIONS");
      EXPECT_TRUE(DetailsOf(ToStatus(large.error())).has_retry);
    } else {
      ++applied;
    }
  }
  EXPECT_EQ(applied, 1);
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 0));
  EXPECT_EQ(admission.waiting_bytes(), 0u);
  for (const auto& session : sessions) {
    EXPECT_FALSE(session->Ask(OneOperation(2, kGet, "0")).has_error());
  }
}

TEST(KvSessionTest, GetsThatAnAnswerHasNoRoomForAreLeftOut) {
  TestDaemon daemon;
  const std::string value(1 << 20, 'v');
  ASSERT_TRUE(daemon.Put("large", value).ok());
  TestSession session(daemon);
  v1::SessionRequest request;
  for (int i = 0; i < 30; ++i) AddOperation(request, kGet, "large");
  AddOperation(request, kPut, "small", "1");
  const v1::SessionResponse response = session.Ask(request);
  ASSERT_EQ(response.results_size(), 31);
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(response.results(i).value().size(), i < 3 ? value.size() : 0) << i;
    if (i < 3) continue;
    EXPECT_EQ(CodeAndReason(ToStatus(response.results(i).error())),
              "RESOURCE_EXHAUSTED ANSWER_TOO_LARGE");
  }
  EXPECT_GT(response.results(30).version(), 0);
}

// Far more than the server may hold: it reads on as the client does.
TEST(KvSessionTest, AnswersOfAnySizeAreSentAsTheClientReads) {
  constexpr int kMessages = 400;
  TestDaemon daemon;
  ASSERT_TRUE(daemon.Put("large", std::string(1 << 20, 'v')).ok());
  TestSession session(daemon);
  for (int i = 0; i < kMessages; ++i) ASSERT_TRUE(session.Send(OneOperation(i, kGet, "large")));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(daemon.daemon().state().admission().bytes(), 80 << 20);
  for (int i = 0; i < kMessages; ++i) {
    const auto response = session.Receive();
    ASSERT_TRUE(response);
    ASSERT_EQ(response->id(), i);
    ASSERT_EQ(response->results(0).value().size(), 1 << 20) << response->ShortDebugString();
  }
}

// Faster than the server applies them: what waits in gRPC is no offence.
TEST(KvSessionTest, ManyLargeMessagesAreNoOffence) {
  constexpr int kMessages = 100;
  auto faults = std::make_shared<Faults>();
  faults->on_write = [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  TestDaemon daemon(TestConfig(), HooksOf(faults));
  TestSession session(daemon);
  std::jthread sender([&] {
    v1::SessionRequest request;
    for (const char* key : {"a", "b", "c"}) {
      AddOperation(request, kPut, key, std::string(1 << 20, 'v'));
    }
    for (int i = 0; i < kMessages; ++i) {
      request.set_id(i);
      if (!session.Send(request)) return;
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    const auto response = session.Receive();
    ASSERT_TRUE(response) << "the connection was ended after " << i;
    ASSERT_EQ(response->id(), i);
  }
  sender.join();
}

TEST(KvSessionTest, AClientThatReadsNoAnswersIsCancelledAndLeavesNothing) {
  Config config = TestConfig();
  config.answer_timeout_ms = 500;
  TestDaemon daemon(config);
  ASSERT_TRUE(daemon.Put("large", std::string(1 << 20, 'v')).ok());
  TestSession session(daemon);
  std::jthread sender([&] {
    for (int i = 0; i < 1'000; ++i) {
      if (!session.Send(OneOperation(i, kGet, "large"))) break;
    }
  });
  const ServerState& state = daemon.daemon().state();
  EXPECT_TRUE(Await([&] { return state.admission().bytes() >= 4 << 20; }));
  EXPECT_EQ(state.sessions(), 1);
  EXPECT_TRUE(Await([&] { return state.sessions() == 0; }));
  EXPECT_EQ(state.admission().operations(), 0);
  EXPECT_EQ(state.admission().bytes(), 0);
  EXPECT_EQ(daemon.ValueOf("none"), "(none)");
  session.Cancel();
  sender.join();
}

TEST(KvSessionTest, AClientThatLeavesLeavesNothing) {
  Config config = TestConfig();
  config.metrics_listen = "127.0.0.1:0";
  SlowStore store(config);
  auto session = std::make_unique<TestSession>(store.daemon());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(session->Send(OneOperation(i, kPut, "k", "v")));
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 10));
  session->Cancel();
  session.reset();
  store.gate().Open();
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 0));
  EXPECT_TRUE(Await([&] { return store.daemon().daemon().state().sessions() == 0; }));
  uint64_t applied = 0;
  for (const size_t operations : store.groups()) applied += operations;
  EXPECT_THAT(Scrape(store.daemon().daemon().metrics_address()),
              ::testing::HasSubstr("lodgekv_write_operations_total " + std::to_string(applied)))
      << "what took effect is counted";
}

TEST(KvSessionTest, AServerThatDrainsAnswersWhatItHasReceivedAndEndsTheSession) {
  SlowStore store;
  TestSession idle(store.daemon());
  ASSERT_FALSE(idle.Ask(OneOperation(0, kGet, "k")).has_error());
  TestSession session(store.daemon());
  ASSERT_TRUE(session.Send(OneOperation(1, kPut, "k", "v")));
  ASSERT_TRUE(session.Send(OneOperation(2, kPut, "k", "w")));
  EXPECT_TRUE(AwaitInFlight(store.daemon(), 2));
  std::thread stop([&] { EXPECT_TRUE(store.daemon().daemon().Stop().ok()); });
  EXPECT_FALSE(idle.Receive());
  EXPECT_EQ(CodeAndReason(idle.AwaitEnd()), "UNAVAILABLE DRAINING");
  store.gate().Open();
  EXPECT_FALSE(session.Receive()->has_error());
  EXPECT_FALSE(session.Receive()->has_error());
  EXPECT_FALSE(session.Receive());
  EXPECT_EQ(CodeAndReason(session.AwaitEnd()), "UNAVAILABLE DRAINING");
  stop.join();
}

TEST(KvSessionTest, TellsTheCostOfAMessage) {
  TestDaemon daemon;
  TestSession session(daemon);
  v1::SessionRequest request = OneOperation(1, kPut, "k", "v");
  EXPECT_FALSE(session.Ask(request).has_cost());
  request.set_want_cost(true);
  AddOperation(request, kGet, "other");
  const v1::SessionResponse response = session.Ask(request);
  EXPECT_EQ(response.cost().group_operations(), 2);
  EXPECT_TRUE(response.cost().has_share());
}

}  // namespace
}  // namespace lodgekv::server::testing
