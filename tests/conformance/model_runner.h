// Runs random operations on an engine and on the oracle (the dram engine) side by side and compares
// every answer; occasionally all of their content, both ways, and after restarts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "index/engine.h"
#include "tests/conformance/model_workload.h"
#include "tests/support/engine_calls.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

// What is tested. After `reopen` the engine is another object.
struct ModelSubject {
  EngineCase engine_case;
  std::function<Engine&()> engine;
  std::function<absl::Status(bool clean)> reopen = {};  // empty: the engine is volatile
};

struct ModelPlan {
  uint64_t operations = 100'000;
  uint64_t compare_every = 10'000;
  uint64_t reopen_every = 25'000;
};

class ModelRunner {
 public:
  ModelRunner(ModelSubject subject, const KeyFamily& family, const Mix& mix, const ModelPlan& plan,
              uint64_t stream);

  // Returns nothing if the engine behaved like the oracle; otherwise the first difference.
  [[nodiscard]] std::optional<std::string> Run();

 private:
  using Difference = std::optional<std::string>;

  Difference WriteStep();
  Difference ReadStep();
  Difference ScanStep();
  Difference CompareAll();
  Difference Reopen();

  Difference CompareGroup(const WorkGroup& group, const std::vector<WriteResult>& expected,
                          const std::vector<WriteResult>& actual);
  Difference CompareRefusedGroup(const WorkGroup& group, const std::vector<WriteResult>& expected,
                                 const std::vector<WriteResult>& actual);
  Difference CompareResult(const WriteOp& op, const WriteResult& expected,
                           const WriteResult& actual);
  Difference CompareScans(const ScanOptions& options);
  Difference CompareCheck();
  Difference CompareAppliedIndex();

  // The version that the engine assigned to the put to which the oracle assigned `oracle_version`.
  uint64_t EngineVersion(uint64_t oracle_version) const;
  Difference LearnVersion(const WriteOp& op, uint64_t oracle_version, uint64_t engine_version);
  void ChooseVersions(const WorkGroup& group, std::vector<WriteOp>& oracle_ops,
                      std::vector<WriteOp>& engine_ops);

  ModelSubject subject_;
  const std::string title_;
  const ModelPlan plan_;
  Workload workload_;
  std::unique_ptr<Engine> oracle_;
  std::vector<uint64_t> engine_versions_;       // by oracle version
  std::unordered_set<uint64_t> used_versions_;  // hashes of key and engine version
  std::vector<uint64_t> stale_versions_;        // by key: an oracle version that it once had
  uint64_t now_unix_ms_ = 1'700'000'000'000;
  uint64_t done_ = 0;
  bool next_reopen_clean_ = false;
};

}  // namespace lodgekv::test
