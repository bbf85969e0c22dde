// The expected content: the acknowledged operations, and the step in flight, each of whose
// operations took effect or not (an atomic step: all or none).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "index/engine.h"
#include "tests/crash/lab/workload.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

class Oracle {
 public:
  struct Value {
    std::string bytes;
    uint64_t version = 0;  // 0 also for a value in flight: not known yet
    uint64_t expiry_unix_ms = 0;
  };
  using State = std::map<std::string, Value, std::less<>>;
  // A human-readable description of the problem; none: no problem.
  using Problem = std::optional<std::string>;

  explicit Oracle(const EngineCase& engine_case) : case_(engine_case) {}

  // Marks the step as in flight; `step` must outlive the next Finish.
  void Begin(const Step& step);
  // The engine has answered: checks the answers, and counts the step as acknowledged.
  Problem Finish(const Step& step, const std::vector<WriteResult>& results);

  // Compares everything that the engine holds with what is expected. Some of `keys` are looked up
  // one by one, the others in later calls.
  Problem Compare(Engine& engine, const std::vector<std::string>& keys);
  // The same for the keys in flight alone: nothing else is read.
  Problem CompareInFlight(Engine& engine);
  // From now on exactly what the last Compare found is expected; nothing is in flight.
  void Adopt();

  uint64_t VersionOf(std::string_view key) const;
  const State& state() const { return state_; }

 private:
  using MaybeValue = std::optional<Value>;
  // A key of the step in flight and the values it may have after a crash: first the one before the
  // step, last the one after all of it.
  struct InFlight {
    std::string_view key;
    std::vector<MaybeValue> possible;
    MaybeValue found;
  };

  MaybeValue Lookup(std::string_view key) const;
  WriteResult Predict(const StepOp& op, const MaybeValue& current) const;
  Problem CheckVersion(const StepOp& op, uint64_t version);
  Problem CheckResult(const StepOp& op, const WriteResult& predicted, const WriteResult& result);
  void Apply(const StepOp& op, uint64_t version);
  InFlight* FindInFlight(std::string_view key);
  bool Same(const Value& a, const Value& b, bool in_flight) const;
  Problem CheckItem(const ScanItem& item, State::const_iterator* next);
  Problem CheckGone(std::string_view key, const Value& value);
  Problem CheckInFlight();
  Problem CheckApplied(const Engine& engine);
  Problem CheckReads(Engine& engine, const std::vector<std::string>& keys);
  Problem CheckStructure(Engine& engine);
  bool AllAre(bool done) const;

  EngineCase case_;
  State state_;
  uint64_t applied_index_ = 0;
  uint64_t last_version_ = 0;
  uint64_t last_version_before_ = 0;     // the last one before the step in flight
  std::vector<uint64_t> step_versions_;  // assigned to its puts
  bool atomic_ = false;
  uint64_t applied_in_flight_ = 0;  // 0: the step has none
  std::vector<InFlight> in_flight_;
  uint64_t keys_found_ = 0;
  uint64_t applied_found_ = 0;
  size_t next_read_ = 0;
  std::vector<ReadResult> reads_;
  std::vector<std::string_view> read_keys_;
};

}  // namespace lodgekv::test
