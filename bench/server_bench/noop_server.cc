// noop_server: what gRPC itself costs, for other servers to be held against: a server with one
// completion queue, one thread that waits for it, and no work.
//
// A call costs what no server on a completion queue can do without: gRPC receives it with its
// message as raw bytes, which nobody parses, and the thread that took it off the queue answers with
// bytes that were made at the start, sharing them, and has gRPC receive another. So there is no
// parsing, building, allocation or second thread of ours in it, and no option of gRPC's is changed.
// One thread, since a second one that waits in gRPC makes each call dearer
// (docs/decisions/0031-one-thread-waits.md). jemalloc is the allocator, as in lodgekvd.
//
// Calls of other methods are never received: to refuse them gRPC would have threads of its own.
//
// Answers say that nothing was found: Get, Put, BatchGet, BatchWrite and each message of a Session
// are answered with an empty message, Scan with one empty page. With --full they are as large as
// those of a server that finds everything (a Session's as those of gets): how much of a call is the
// sending of its answer.
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/lock_order.h"
#include "bench/server_bench/typical_answer.h"
#include "lodgekv/v1/kv.grpc.pb.h"

namespace lodgekv::server_bench {
namespace {

// That gRPC can receive before one is answered, of each kind; more than a client has in flight.
constexpr size_t kCallsOfAKind = 256;

using Service = v1::KvService::WithRawMethod_Get<
    v1::KvService::WithRawMethod_Put<v1::KvService::WithRawMethod_BatchGet<
        v1::KvService::WithRawMethod_BatchWrite<v1::KvService::WithRawMethod_Scan<
            v1::KvService::WithRawMethod_Session<v1::KvService::AsyncService>>>>>>;

// What is the same for all calls of a kind.
struct Kind {
  CallKind kind = CallKind::kGet;
  grpc::ByteBuffer answer;
};

// A place for a call.
class Call {
 public:
  virtual ~Call() = default;
  virtual void Receive() = 0;
  // ok: as the queue says of what was awaited.
  virtual void Advance(bool ok) = 0;
};

// Received, then answered, then received again.
class CallOfOneAnswer : public Call {
 public:
  virtual void Answer() = 0;

  // Not ok: nobody awaits the answer any more, and the place is free as well.
  void Advance(bool) final {
    answering_ = !answering_;
    if (answering_) {
      Answer();
    } else {
      Receive();
    }
  }

 private:
  bool answering_ = false;
};

class UnaryCall final : public CallOfOneAnswer {
 public:
  UnaryCall(Service& service, grpc::ServerCompletionQueue& queue, const Kind& kind)
      : service_(service), queue_(queue), kind_(kind) {}

  void Receive() override {
    responder_.reset();
    responder_.emplace(&context_.emplace());
    auto* context = &*context_;
    auto* responder = &*responder_;
    switch (kind_.kind) {
      case CallKind::kPut:
        return service_.RequestPut(context, &request_, responder, &queue_, &queue_, this);
      case CallKind::kBatchGet:
        return service_.RequestBatchGet(context, &request_, responder, &queue_, &queue_, this);
      case CallKind::kBatchWrite:
        return service_.RequestBatchWrite(context, &request_, responder, &queue_, &queue_, this);
      default: return service_.RequestGet(context, &request_, responder, &queue_, &queue_, this);
    }
  }

  void Answer() override { responder_->Finish(kind_.answer, grpc::Status::OK, this); }

 private:
  Service& service_;
  grpc::ServerCompletionQueue& queue_;
  const Kind& kind_;
  grpc::ByteBuffer request_;
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> responder_;
};

class ScanCall final : public CallOfOneAnswer {
 public:
  ScanCall(Service& service, grpc::ServerCompletionQueue& queue, const Kind& kind)
      : service_(service), queue_(queue), kind_(kind) {}

  void Receive() override {
    writer_.reset();
    writer_.emplace(&context_.emplace());
    service_.RequestScan(&*context_, &request_, &*writer_, &queue_, &queue_, this);
  }

  void Answer() override { writer_->WriteAndFinish(kind_.answer, {}, grpc::Status::OK, this); }

 private:
  Service& service_;
  grpc::ServerCompletionQueue& queue_;
  const Kind& kind_;
  grpc::ByteBuffer request_;
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncWriter<grpc::ByteBuffer>> writer_;
};

// Each message is answered before the next is read.
class SessionCall final : public Call {
 public:
  SessionCall(Service& service, grpc::ServerCompletionQueue& queue, const Kind& kind)
      : service_(service), queue_(queue), kind_(kind) {}

  void Receive() override {
    step_ = Step::kReceived;
    stream_.reset();
    stream_.emplace(&context_.emplace());
    service_.RequestSession(&*context_, &*stream_, &queue_, &queue_, this);
  }

  void Advance(bool ok) override {
    if (step_ == Step::kEnded) return Receive();
    if (!ok) {
      step_ = Step::kEnded;
      stream_->Finish(grpc::Status::OK, this);
    } else if (step_ == Step::kRead) {
      step_ = Step::kAnswered;
      stream_->Write(kind_.answer, this);
    } else {
      step_ = Step::kRead;
      stream_->Read(&request_, this);
    }
  }

 private:
  enum class Step { kReceived, kRead, kAnswered, kEnded };

  Service& service_;
  grpc::ServerCompletionQueue& queue_;
  const Kind& kind_;
  Step step_ = Step::kReceived;
  grpc::ByteBuffer request_;
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
};

class NoopServer {
 public:
  // full_batch: records of a full answer to a batch or scan; 0: empty answers.
  explicit NoopServer(uint64_t full_batch) {
    for (const CallKind kind : {CallKind::kGet, CallKind::kPut, CallKind::kBatchGet,
                                CallKind::kBatchWrite, CallKind::kScan, CallKind::kSessionGet}) {
      const std::string answer = full_batch == 0 ? std::string() : TypicalAnswer(kind, full_batch);
      const grpc::Slice slice(answer);
      kinds_.push_back({kind, grpc::ByteBuffer(&slice, 1)});
    }
  }

  // False if an address cannot be listened on.
  bool Start(const std::string& listen, const std::string& unix_path) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
    if (!unix_path.empty()) {
      builder.AddListeningPort("unix:" + unix_path, grpc::InsecureServerCredentials());
    }
    builder.RegisterService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return false;
    for (const Kind& kind : kinds_) AddCalls(kind);
    std::printf("listening tcp=127.0.0.1:%d unix=%s\n", port, unix_path.c_str());
    std::fflush(stdout);
    return true;
  }

  // Until Stop, from another thread.
  void Serve() {
    void* tag = nullptr;
    bool ok = false;
    bool stopping = false;
    while (queue_->Next(&tag, &ok)) {
      if (tag == &stop_) {
        stopping = true;
        server_->Shutdown(std::chrono::system_clock::now());
        queue_->Shutdown();
      } else if (!stopping) {
        static_cast<Call*>(tag)->Advance(ok);
      }
    }
  }

  void Stop() { stop_.Set(queue_.get(), std::chrono::system_clock::now(), &stop_); }

 private:
  void AddCalls(const Kind& kind) {
    for (size_t i = 0; i < kCallsOfAKind; ++i) {
      if (kind.kind == CallKind::kScan) {
        calls_.push_back(std::make_unique<ScanCall>(service_, *queue_, kind));
      } else if (kind.kind == CallKind::kSessionGet) {
        calls_.push_back(std::make_unique<SessionCall>(service_, *queue_, kind));
      } else {
        calls_.push_back(std::make_unique<UnaryCall>(service_, *queue_, kind));
      }
      calls_.back()->Receive();
    }
  }

  Service service_;
  std::vector<Kind> kinds_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<Call>> calls_;
  grpc::Alarm stop_;
};

// Blocked in all threads, so that AwaitStop receives them.
sigset_t BlockStops() {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  return stops;
}

int Main(int argc, char** argv) {
  std::string listen = "127.0.0.1:0";
  std::string unix_path;
  uint64_t full_batch = 0;
  CLI::App app("A gRPC server of lodgekv.v1 that does nothing, to hold others against.");
  app.option_defaults()->always_capture_default();
  app.add_option("--listen", listen, "Its address; the port is printed on a line");
  app.add_option("--unix", unix_path, "A socket to listen on as well");
  app.add_option("--full", full_batch,
                 "Answer as one that finds everything, batches and pages of so many; 0: nothing")
      ->check(CLI::Range(0, 1'000));
  CLI11_PARSE(app, argc, argv);
  const sigset_t stops = BlockStops();
  NoopServer server(full_batch);
  if (!server.Start(listen, unix_path)) {
    std::fprintf(stderr, "noop_server: cannot listen on %s %s\n", listen.c_str(),
                 unix_path.c_str());
    return 1;
  }
  std::jthread poller([&server] { server.Serve(); });
  int signal = 0;
  sigwait(&stops, &signal);
  server.Stop();
  return 0;
}

}  // namespace
}  // namespace lodgekv::server_bench

int main(int argc, char** argv) {
  lodgekv::SkipLockOrderCheck();
  try {
    return lodgekv::server_bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "noop_server: %s\n", error.what());
    return 1;
  }
}
