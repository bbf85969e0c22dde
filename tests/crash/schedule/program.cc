#include "tests/crash/schedule/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/crash/explorer/explorer.h"
#include "tests/support/engine_calls.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

// A version that no value has.
constexpr uint64_t kNoVersion = 1'000'000'000;
// After a crash.
constexpr unsigned kThreadsAfter = 2;

Mixture TreeMixture(const ProgramMixture& mixture) {
  return {.name = mixture.name,
          .family = mixture.family,
          .keys = mixture.keys,
          .deletes = 15,
          .conditions = 0,
          .groups = 0,
          .batches = 10,
          .largest_group = 3,
          .largest_value = mixture.largest_value};
}

}  // namespace

std::string Call::Describe() const {
  switch (kind) {
    case Kind::kWrite: return step.Describe();
    case Kind::kRead:
      return absl::StrCat("read ", absl::StrJoin(keys, ", ", [](std::string* out, const auto& key) {
                            absl::StrAppend(out, Show(key));
                          }));
    case Kind::kScan: return reverse ? "scan in reverse" : "scan";
  }
  return "?";
}

std::string DescribeCalls(const ThreadCalls& calls) {
  std::string text;
  for (size_t i = 0; i < calls.size(); ++i) {
    absl::StrAppend(&text, "\n    thread ", i, ":");
    for (const Call& call : calls[i]) absl::StrAppend(&text, " {", call.Describe(), "}");
  }
  return text;
}

std::string Program::Describe() const {
  return absl::StrCat("program ", name, " over ", warm_up.size(), " steps of warm-up",
                      has_before() ? absl::StrCat(", before:", DescribeCalls(before)) : "",
                      has_before() ? "\n   then:" : "", DescribeCalls(threads));
}

ProgramMaker::ProgramMaker(const EngineCase& engine_case, const ProgramMixture& mixture,
                           Random& random)
    : case_(engine_case),
      mixture_(mixture),
      random_(random),
      workload_(engine_case, TreeMixture(mixture)) {}

Program ProgramMaker::MakeTree() {
  Program program;
  program.name = std::string(mixture_.name);
  if (random_.OneIn(2)) program.engine_options = DrawEngineOptions(*case_.engine, random_);
  program.all_keys = workload_.keys();
  // Some trees are built by puts in key order, which fill nodes; some by random steps.
  const bool in_order = random_.OneIn(2);
  const uint64_t steps = random_.Below(mixture_.warm_up + uint64_t{1});
  const auto version_of = [](std::string_view) { return uint64_t{0}; };
  for (uint64_t i = 0; i < steps; ++i) {
    program.warm_up.push_back(in_order ? workload_.PutNumber(i)
                                       : workload_.Next(random_, version_of));
  }
  // No two keys have the same value.
  for (Step& step : program.warm_up) {
    for (StepOp& op : step.ops) {
      if (op.kind == WriteKind::kPut && op.value.empty()) op.value = NextValue();
    }
  }
  std::vector<std::string> keys = program.all_keys;
  const uint64_t hot = random_.Between(1, mixture_.hot_keys);
  while (program.hot.size() < std::min<uint64_t>(hot, keys.size())) {
    const auto at = keys.begin() + static_cast<ptrdiff_t>(random_.Below(keys.size()));
    if (std::find(program.hot.begin(), program.hot.end(), *at) == program.hot.end()) {
      program.hot.push_back(*at);
    }
  }
  return program;
}

void ProgramMaker::AddCalls(VersionOf version_of, Program* program) {
  for (unsigned thread = 0; thread < mixture_.threads; ++thread) {
    auto& before = program->before.emplace_back();
    for (uint64_t n = random_.Below(mixture_.before + uint64_t{1}); n > 0; --n) {
      before.push_back(NextCall(*program, version_of));
    }
    auto& calls = program->threads.emplace_back();
    for (uint64_t n = random_.Between(1, mixture_.calls); n > 0; --n) {
      calls.push_back(NextCall(*program, version_of));
    }
  }
  for (size_t i = 1; i < Program::kVariants; ++i) {
    program->after.push_back(NextCalls(*program, version_of, kThreadsAfter));
  }
  program->after.push_back(NextCalls(*program, version_of, 1));
}

ThreadCalls ProgramMaker::NextCalls(const Program& program, VersionOf version_of,
                                    unsigned threads) {
  ThreadCalls all(threads);
  for (auto& calls : all) {
    for (uint64_t n = random_.Between(1, mixture_.calls); n > 0; --n) {
      calls.push_back(NextCall(program, version_of));
    }
  }
  return all;
}

// Every value is different, so that it identifies its put.
std::string ProgramMaker::NextValue() {
  const uint64_t id = next_value_++;
  if (case_.fixed64()) return ValueOf(case_.key_format, id);
  if (case_.inline_pairs && random_.Percent(60)) return absl::StrCat(id);
  return ValueOf(case_.key_format, id, random_.Between(8, std::max(8U, mixture_.largest_value)));
}

StepOp ProgramMaker::NextOp(const Program& program, VersionOf version_of) {
  StepOp op;
  op.key = program.hot[random_.Below(program.hot.size())];
  if (random_.Percent(mixture_.deletes)) op.kind = WriteKind::kDelete;
  if (op.kind == WriteKind::kPut) op.value = NextValue();
  if (!random_.Percent(mixture_.conditions)) return op;
  op.condition = random_.OneIn(2) ? Condition::kIfAbsent : Condition::kIfPresent;
  if (!case_.has_versions() || random_.OneIn(2)) return op;
  op.condition = Condition::kIfVersion;
  op.if_version = version_of(op.key);
  if (op.if_version == 0 || random_.OneIn(5)) op.if_version += kNoVersion;
  return op;
}

Call ProgramMaker::NextCall(const Program& program, VersionOf version_of) {
  Call call;
  if (random_.Percent(mixture_.reads)) {
    call.kind = random_.Percent(mixture_.scans) ? Call::Kind::kScan : Call::Kind::kRead;
    call.reverse = random_.OneIn(2);
    if (call.kind == Call::Kind::kRead) call.keys = program.hot;
    if (random_.OneIn(2) && !call.keys.empty()) {
      call.keys = {call.keys[random_.Below(call.keys.size())]};
    }
    return call;
  }
  Step& step = call.step;
  step.atomic = random_.Percent(mixture_.batches);
  const bool several = step.atomic || random_.Percent(mixture_.groups);
  const size_t most = std::min<size_t>(program.hot.size(), mixture_.largest_group);
  const size_t wanted = several ? random_.Between(1, most) : 1;
  while (step.ops.size() < wanted) {
    StepOp op = NextOp(program, version_of);
    const bool repeats = std::any_of(step.ops.begin(), step.ops.end(),
                                     [&](const StepOp& other) { return other.key == op.key; });
    if (!repeats) step.ops.push_back(std::move(op));
  }
  if (step.atomic && random_.Percent(70)) step.applied_index = ++applied_index_;
  return call;
}

}  // namespace lodgekv::test
