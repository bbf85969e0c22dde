// What several threads did and read, and what may be found after a crash: durable linearizability.
//
// Each key is a register. The content of an image counts as one more read of every key, after all
// else. With it the history must be linearizable (tests/support/linearizability.h), where a call in
// flight has taken effect or not, and an atomic batch in flight in all of its keys or in none. So
// whatever was acknowledged, and whatever a read or a scan has returned, must be there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "index/engine.h"
#include "tests/crash/schedule/program.h"
#include "tests/support/engine_case.h"
#include "tests/support/linearizability.h"

namespace lodgekv::test {

// The content of an engine.
struct Observation {
  std::string problem;  // an error independent of the history: in its structure or order
  // By hot key of the program: the number of the value, kAbsent if there is none.
  std::vector<uint64_t> values;
  std::vector<uint64_t> versions;
  uint64_t applied_index = 0;
};

class ConcurrentHistory {
 public:
  using Problem = std::optional<std::string>;

  // `engine` holds the program's tree. The program must outlive the history.
  ConcurrentHistory(const EngineCase& engine_case, const Program& program, Engine& engine);

  // Resets to the state with nothing but the tree.
  void Restart();

  // Makes the call and records its answer. `returned` is called when a write of the engine has
  // returned, before that is recorded.
  Problem Make(Engine& engine, unsigned thread, const Call& call,
               absl::FunctionRef<void()> returned);

  Observation Observe(Engine& engine) const;
  // Whether a crash now could leave this; if nothing is in flight also whether the running engine
  // could hold it.
  Problem Check(const Observation& observation);
  // A reader has seen all that: from here on it must be there.
  void Note(const Observation& observation);
  // Recovery found this after a crash, and it is allowed. From here on what was in flight has taken
  // effect or never will, however often recovery is interrupted.
  void Adopt(const Observation& found);

  uint64_t pool_full() const { return pool_full_; }

 private:
  // A value of a key, as a reader saw it.
  struct Seen {
    std::string value;
    uint64_t version;
    bool operator==(const Seen&) const = default;
  };
  struct Register {
    std::vector<RegisterOp> done;
    // Puts that have returned: of two consecutive ones, the later has the higher version.
    struct Put {
      uint64_t version;
      int64_t return_time;
    };
    std::vector<Put> puts;
    struct Checked {
      uint64_t value;
      uint32_t batches;
      bool fits;
    };
    std::vector<Checked> checked;  // since the last event
  };
  struct Flight {
    const Step* step = nullptr;
    int64_t call_time = 0;
  };

  void NumberValues(const ThreadCalls& calls);
  void NumberValue(const std::string& value);
  void BeginWith(const Observation& first);
  int64_t Event();
  Problem MakeWrite(Engine& engine, unsigned thread, const Step& step,
                    absl::FunctionRef<void()> returned);
  Problem NoteWrite(const StepOp& op, const WriteResult& result, const Flight& flight,
                    unsigned thread);
  Problem NotePut(const StepOp& op, const WriteResult& result, int64_t call_time);
  RegisterOp Attempt(const StepOp& op) const;
  RegisterOp Refused(const StepOp& op, const WriteResult& result) const;
  Problem MakeRead(Engine& engine, unsigned thread, const Call& call);
  Problem MakeScan(Engine& engine, unsigned thread, const Call& call);
  Problem NoteRead(size_t key, std::string_view value, uint64_t version, int64_t call_time,
                   unsigned thread);

  std::string ObserveScan(Engine& engine, Observation* observation, uint64_t* keys) const;
  std::string ObserveReads(Engine& engine, const Observation& observation) const;

  size_t IndexOf(std::string_view key) const;       // hot_.size(): not a hot key
  uint64_t NumberOf(std::string_view value) const;  // kUnknown: nobody writes it
  uint64_t NumberOfVersion(uint64_t version) const;
  bool Fits(size_t key, uint64_t value, uint32_t batches);
  std::vector<RegisterOp> HistoryOf(size_t key, uint64_t value, uint32_t batches) const;
  bool AppliedIndexFits(uint64_t found, uint32_t batches) const;
  Problem CheckVersions(const Observation& observation) const;
  std::string Explain(const Observation& observation, uint32_t batches) const;

  const EngineCase case_;
  const std::vector<std::string>& hot_;
  std::vector<std::string> values_ = {""};  // by number; kAbsent means none
  std::map<std::string, uint64_t, std::less<>> numbers_;
  std::map<std::string, Seen, std::less<>> others_;  // keys that are never changed
  Observation tree_;
  std::vector<uint64_t> tree_versions_;
  std::vector<uint64_t> first_;  // values of the hot keys at the beginning

  std::vector<Register> registers_;  // of the hot keys
  std::vector<uint64_t> versions_;   // by number of the value; 0: not known yet
  std::vector<Flight> flights_;      // by thread
  uint64_t applied_index_ = 0;       // acknowledged
  int64_t now_ = 0;
  uint64_t pool_full_ = 0;
};

}  // namespace lodgekv::test
