// What a few threads do concurrently: a fixed list of calls over a small tree that is built before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/crash/lab/workload.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

// One call of the engine.
struct Call {
  enum class Kind : uint8_t { kWrite, kRead, kScan };
  Kind kind = Kind::kWrite;
  Step step = {};                      // of a write
  std::vector<std::string> keys = {};  // of a read
  bool reverse = false;                // of a scan, which is over all keys

  std::string Describe() const;
};

// The calls of each thread, in order.
using ThreadCalls = std::vector<std::vector<Call>>;
std::string DescribeCalls(const ThreadCalls& calls);

struct Program {
  // Variants of `after`; the last is for a single thread.
  static constexpr size_t kVariants = 3;

  std::string name;
  std::map<std::string, std::string> engine_options = {};  // override those of the case
  std::vector<std::string> all_keys = {};
  std::vector<Step> warm_up = {};       // on one thread, before a restart of the engine
  std::vector<std::string> hot = {};    // the keys that the threads change
  ThreadCalls before = {};              // in sequence, one thread after the other
  ThreadCalls threads = {};             // then these, concurrently
  std::vector<ThreadCalls> after = {};  // after a crash one of these, concurrently

  bool has_before() const {
    return std::any_of(before.begin(), before.end(),
                       [](const auto& calls) { return !calls.empty(); });
  }
  std::string Describe() const;
};

// The parameters from which programs are drawn.
struct ProgramMixture {
  std::string_view name;
  std::string_view family;  // of keys, as in Mixture
  unsigned keys = 24;       // of the tree, at most
  unsigned warm_up = 30;    // steps, at most
  unsigned threads = 2;
  unsigned calls = 2;     // of each thread, at most
  unsigned hot_keys = 3;  // at most
  unsigned reads = 30;    // in percent of the calls
  unsigned scans = 20;    // in percent of those
  unsigned deletes = 20;
  unsigned conditions = 15;
  unsigned groups = 10;
  unsigned batches = 20;
  unsigned largest_group = 3;  // and batch
  unsigned before = 0;         // calls of each thread before, at most
  unsigned largest_value = 40;
};

// Draws programs. The tree comes first, since conditions name versions in it.
class ProgramMaker {
 public:
  ProgramMaker(const EngineCase& engine_case, const ProgramMixture& mixture, Random& random);

  // Draws name, options, keys and warm-up.
  Program MakeTree();
  // Draws the rest; `version_of` returns versions in the tree that the warm-up has built.
  void AddCalls(VersionOf version_of, Program* program);

 private:
  ThreadCalls NextCalls(const Program& program, VersionOf version_of, unsigned threads);
  Call NextCall(const Program& program, VersionOf version_of);
  StepOp NextOp(const Program& program, VersionOf version_of);
  std::string NextValue();

  const EngineCase case_;
  const ProgramMixture mixture_;
  Random& random_;
  Workload workload_;
  uint64_t next_value_ = 10'000;
  uint64_t applied_index_ = 1'000;
};

}  // namespace lodgekv::test
