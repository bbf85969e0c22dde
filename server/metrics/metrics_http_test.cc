#include "server/metrics/metrics_http.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace lodgekv::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class OneGauge final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    prometheus::MetricFamily family;
    family.name = "seven";
    family.help = "Always 7";
    family.type = prometheus::MetricType::Gauge;
    family.metric.emplace_back().gauge.value = 7;
    return {family};
  }
};

class MetricsHttpTest : public ::testing::Test {
 protected:
  MetricsHttpTest() {
    auto started = MetricsHttp::Start(std::make_shared<OneGauge>());
    EXPECT_TRUE(started.ok()) << started.status();
    http_ = *std::move(started);
  }
  ~MetricsHttpTest() override {
    for (const int fd : ours_) close(fd);
  }

  // The client's end of a connection that it serves.
  int Connect() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const timeval timeout{.tv_sec = 5, .tv_usec = 0};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    fcntl(ends[0], F_SETFL, 0);
    http_->Serve(ends[1]);
    ours_.push_back(ends[0]);
    return ends[0];
  }

  std::string Ask(std::string_view request) {
    const int fd = Connect();
    EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
    std::string answer;
    char buffer[4096];
    for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) answer.append(buffer, n);
    return answer;
  }

  std::string AskFor(std::string_view line) {
    return Ask(std::string(line) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  std::unique_ptr<MetricsHttp> http_;
  std::vector<int> ours_;
};

TEST_F(MetricsHttpTest, ServesTheMetricsAsText) {
  const std::string answer = AskFor("GET /metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("# TYPE seven gauge\nseven 7\n"));
  EXPECT_THAT(AskFor("HEAD /metrics"), Not(HasSubstr("seven")));
}

TEST_F(MetricsHttpTest, ServesNothingElse) {
  EXPECT_THAT(AskFor("GET /"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(AskFor("GET /metrics/x"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(AskFor("POST /metrics"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Ask("no http at all\r\n\r\n"), Not(HasSubstr("200 OK")));
}

TEST_F(MetricsHttpTest, AnswersDespiteIdleConnections) {
  for (int i = 0; i < 200; ++i) Connect();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(AskFor("GET /metrics"), HasSubstr("seven 7"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST_F(MetricsHttpTest, RefusesAnEndlessRequest) {
  EXPECT_THAT(Ask("GET /metrics HTTP/1.1\r\nX: " + std::string(60'000, 'x')),
              Not(HasSubstr("200 OK")));
}

TEST_F(MetricsHttpTest, StopsWithOpenConnections) {
  const int fd = Connect();
  http_.reset();
  char byte;
  EXPECT_LE(read(fd, &byte, 1), 0);
}

}  // namespace
}  // namespace lodgekv::server
