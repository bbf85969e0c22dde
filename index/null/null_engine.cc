// The engine that does nothing: it accepts every write and stores none, so that a benchmark of it
// measures everything but the engine.

#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/engine_info.h"

namespace lodgekv::null {
namespace {

class NullEngine final : public Engine {
 public:
  [[nodiscard]] Outcome Write(std::span<const WriteOp>, std::span<WriteResult> results,
                              const WriteOptions&) override {
    std::fill(results.begin(), results.end(), WriteResult{});
    return Outcome::kOk;
  }

  [[nodiscard]] Outcome Read(std::span<const std::string_view>, std::span<ReadResult> results,
                             const ReadOptions&) override {
    for (ReadResult& result : results) {
      result.outcome = Outcome::kOk;
      result.found = result.left_out = false;
      result.version = 0;
      result.expiry_unix_ms = 0;
    }
    return Outcome::kOk;
  }

  [[nodiscard]] Outcome Scan(const ScanOptions&, ScanVisitor) override { return Outcome::kOk; }
  [[nodiscard]] uint64_t CountKeys() override { return 0; }
  [[nodiscard]] CheckReport Check() override { return {}; }
  [[nodiscard]] uint64_t AppliedIndex() const override { return 0; }
  void VisitCounters(CounterVisitor) const override {}
  [[nodiscard]] MemoryUse GetMemoryUse() const override { return {}; }
  absl::Status Close() override { return absl::OkStatus(); }
};

absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineContext&) {
  return std::make_unique<NullEngine>();
}

constexpr EngineInfo kInfo = {
    .name = "null",
    .summary = "accepts every write and stores nothing: the lower bound of every benchmark",
    .paper = "",
    .persistent = false,
    .discards = true,
    .options = {},
    .create = Create,
};

}  // namespace

const EngineInfo& GetEngineInfo();
const EngineInfo& GetEngineInfo() { return kInfo; }

}  // namespace lodgekv::null
