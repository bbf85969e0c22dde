// The executable with the LodgeTree engine on a pool: its metrics, and its largest batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <string>

#include "server/base/limits.h"
#include "server/testing/daemon_process.h"

namespace lodgekv::server::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kLargestBatch = kMaxBatchOperations.max_value;

// The value of the one sample of this name, with any labels; NaN if there is none.
double Sample(const std::string& text, const std::string& name) {
  for (const char* behind : {"{", " "}) {
    const size_t line = text.find("\nlodgekv_" + name + behind);
    if (line == std::string::npos) continue;
    const std::string sample = text.substr(line + 1, text.find('\n', line + 1) - line - 1);
    return std::strtod(sample.c_str() + sample.rfind(' '), nullptr);
  }
  return std::nan("");
}

class LodgekvdEngineTest : public LodgekvdTest {
 protected:
  std::vector<std::string> WithMetrics() {
    return {
        "--listen",    "127.0.0.1:0", "--admin-listen",         "127.0.0.1:0", "--metrics-listen",
        "127.0.0.1:0", "--pool",      directory_ / "pool",      "--pool-size", "64MiB",
        "--engine",    "lodgetree",   "--allow-volatile-medium"};
  }

  // Puts `count` keys from number `first` on, scattered over the key space.
  static grpc::Status PutBatch(const std::string& address, uint64_t first, uint64_t count) {
    v1::BatchWriteRequest request;
    for (uint64_t i = first; i < first + count; ++i) {
      v1::Operation* operation = request.add_operations();
      operation->set_kind(v1::OPERATION_KIND_PUT);
      operation->set_key("key" + std::to_string(i * 0x9E3779B97F4A7C15 >> 16));
      operation->set_value("value" + std::to_string(i));
    }
    const auto kv =
        v1::KvService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    SetDeadline(context);
    v1::BatchWriteResponse response;
    return kv->BatchWrite(&context, request, &response);
  }
};

TEST_F(LodgekvdEngineTest, TheLargestBatchIsServedAndOneMoreIsRefusedByName) {
  Process process(directory_, OnPool());
  const std::string address = process.AwaitAddress("serving", "data");
  ASSERT_NE(address, "") << process.err();
  const grpc::Status largest = PutBatch(address, 0, kLargestBatch);
  EXPECT_TRUE(largest.ok()) << largest.error_message();
  const grpc::Status longer = PutBatch(address, 0, kLargestBatch + 1);
  EXPECT_EQ(CodeAndReason(longer), "INVALID_ARGUMENT BATCH_TOO_LONG");
  EXPECT_THAT(longer.error_message(), HasSubstr("max_batch_operations, 1024"));
}

TEST_F(LodgekvdEngineTest, MetricsMoveWithWrites) {
  constexpr int kBatches = 12;
  // Lines are flushed as on persistent memory, although the pool is in memory.
  Process process(directory_, WithMetrics(), {"PMEM_IS_PMEM_FORCE=1"});
  const std::string address = process.AwaitAddress("serving", "data");
  ASSERT_NE(address, "") << process.err();
  const std::string metrics = process.AwaitAddress("listening", "metrics");
  const std::string before = Scrape(metrics);
  for (int i = 0; i < kBatches; ++i) {
    ASSERT_TRUE(PutBatch(address, i * kLargestBatch, kLargestBatch).ok());
  }
  const std::string after = Scrape(metrics);

  EXPECT_THAT(after, HasSubstr("lodgekv_medium_info{engine=\"lodgetree\",medium_class=\"pmem-forced"
                               "\",durability=\"medium\",key_format=\"bytes\"} 1\n"));
  for (const char* name :
       {"lines_flushed_total", "fences_total", "media_writes_256b_total", "stored_bytes_total",
        "pool_used_bytes", "engine_medium_bytes", "engine_dram_bytes",
        "engine_buffer_flushes_total", "engine_flushed_pairs_total", "engine_leaf_splits_total",
        "engine_node_splits_total", "engine_logs_opened_total", "engine_leaves",
        "engine_last_level_nodes"}) {
    EXPECT_GT(Sample(after, name), Sample(before, name)) << name;
  }
  EXPECT_GE(Sample(after, "fences_total") - Sample(before, "fences_total"), kBatches);
  EXPECT_GT(Sample(after, "engine_log_live_bytes"), 0);
  EXPECT_GT(Sample(after, "engine_log_limit_bytes"), 0);
  EXPECT_LT(Sample(after, "pool_free_bytes"), Sample(before, "pool_free_bytes"));
  EXPECT_EQ(Sample(after, "pool_used_bytes") + Sample(after, "pool_free_bytes") +
                Sample(after, "pool_reserved_bytes"),
            Sample(after, "pool_total_bytes"));
  EXPECT_EQ(Sample(after, "recovery_seconds"), 0) << "the pool was created";
}

TEST_F(LodgekvdEngineTest, MetricsReportTheRecovery) {
  constexpr uint64_t kSmallBatch = 4;
  {
    Process process(directory_, WithMetrics());
    const std::string address = process.AwaitAddress("serving", "data");
    ASSERT_NE(address, "") << process.err();
    ASSERT_TRUE(PutBatch(address, 0, kLargestBatch).ok());
    // A large batch goes to its leaves at once, a small one stays in the buffers.
    ASSERT_TRUE(PutBatch(address, kLargestBatch, kSmallBatch).ok());
    process.Signal(SIGKILL);
    EXPECT_EQ(process.Wait(), 128 + SIGKILL);
  }
  Process process(directory_, WithMetrics());
  ASSERT_NE(process.AwaitAddress("serving", "data"), "") << process.err();
  const std::string text = Scrape(process.AwaitAddress("listening", "metrics"));
  EXPECT_THAT(text, HasSubstr("medium_class=\"volatile\""));
  EXPECT_GT(Sample(text, "recovery_seconds"), 0);
  EXPECT_EQ(Sample(text, "recovery_clean"), 0);
  EXPECT_EQ(Sample(text, "recovery_keys"), kLargestBatch + kSmallBatch);
  EXPECT_GT(Sample(text, "recovery_log_entries_replayed"), 0);
}

}  // namespace
}  // namespace lodgekv::server::testing
