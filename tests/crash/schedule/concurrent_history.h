// What several threads did and saw, and what may be found after a crash: durable linearizability.
//
// Each key is a register. What an image holds counts as one more read of every key, after all else:
// with it the history must be linearizable (tests/support/linearizability.h), where a call in
// flight has taken effect or not, and an atomic batch in flight in all of its keys or in none. So
// whatever was acknowledged is there, and whatever a read or a scan has returned.
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

// All that an engine holds.
struct Observation {
  std::string problem;  // what is wrong whatever was done: its structure, its order
  // Of the program's hot keys: the number of the value, kAbsent where there is none.
  std::vector<uint64_t> values;
  std::vector<uint64_t> versions;
  uint64_t applied_index = 0;
};

class ConcurrentHistory {
 public:
  using Problem = std::optional<std::string>;

  // `engine` holds the program's tree. The program outlives the history.
  ConcurrentHistory(const EngineCase& engine_case, const Program& program, Engine& engine);

  // Back to where nothing but the tree has been made.
  void Restart();

  // Makes the call and notes what it says. `returned` is called when the engine has returned from a
  // write, before that is noted.
  Problem Make(Engine& engine, unsigned thread, const Call& call,
               absl::FunctionRef<void()> returned);

  Observation Observe(Engine& engine) const;
  // Could a crash now leave that? Where nothing is in flight also: could the living engine hold it?
  Problem Check(const Observation& observation);
  // A reader has seen all that: from here on it must be there.
  void Note(const Observation& observation);
  // After a crash recovery has found that, which may be: what was in flight has taken effect or
  // never will, however often recovery is cut from here on.
  void Adopt(const Observation& found);

  uint64_t pool_full() const { return pool_full_; }

 private:
  // The value of a key, as it was seen.
  struct Seen {
    std::string value;
    uint64_t version;
    bool operator==(const Seen&) const = default;
  };
  struct Register {
    std::vector<RegisterOp> done;
    // Puts that have returned: of two, one after the other, the later has the higher version.
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

  size_t IndexOf(std::string_view key) const;       // hot_.size(): none of them
  uint64_t NumberOf(std::string_view value) const;  // kUnknown: nobody writes it
  uint64_t NumberOfVersion(uint64_t version) const;
  bool Fits(size_t key, uint64_t value, uint32_t batches);
  std::vector<RegisterOp> HistoryOf(size_t key, uint64_t value, uint32_t batches) const;
  bool AppliedIndexFits(uint64_t found, uint32_t batches) const;
  Problem CheckVersions(const Observation& observation) const;
  std::string Explain(const Observation& observation, uint32_t batches) const;

  const EngineCase case_;
  const std::vector<std::string>& hot_;
  std::vector<std::string> values_ = {""};  // by number; kAbsent stands for none
  std::map<std::string, uint64_t, std::less<>> numbers_;
  std::map<std::string, Seen, std::less<>> others_;  // keys that nobody changes
  Observation tree_;
  std::vector<uint64_t> tree_versions_;
  std::vector<uint64_t> first_;  // values of the hot keys before all that follows

  std::vector<Register> registers_;  // of the hot keys
  std::vector<uint64_t> versions_;   // by number of the value; 0: not known yet
  std::vector<Flight> flights_;      // by thread
  uint64_t applied_index_ = 0;       // acknowledged
  int64_t now_ = 0;
  uint64_t pool_full_ = 0;
};

}  // namespace lodgekv::test
