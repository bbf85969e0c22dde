#include "tests/crash/lab/script.h"

#include <stdexcept>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace lodgekv::test {
namespace {

// RUN|RUN, each WORKER@CRASH;STEP;STEP, each step WORKER:ATOMIC:INDEX,OP,OP, each operation
// KIND:CONDITION:KEY:VALUE:EXPIRY. CRASH is "-" or FENCE_LINE=1.0_LINE=2.
constexpr std::string_view kConditions = "-APV";

[[noreturn]] void Refuse(std::string_view part) {
  throw std::invalid_argument(
      absl::StrCat("LODGEKV_CRASH_SCRIPT: '", std::string(part), "' is no part of a script"));
}

uint64_t Number(const std::string& text) {
  uint64_t number;
  if (!absl::SimpleAtoi(text, &number)) Refuse(text);
  return number;
}

std::vector<std::string> Parts(std::string_view text, char by, size_t at_least) {
  std::vector<std::string> parts = absl::StrSplit(std::string(text), by);
  if (parts.size() < at_least) Refuse(text);
  return parts;
}

std::string OpText(const StepOp& op) {
  const auto condition = static_cast<size_t>(op.condition);
  return absl::StrCat(
      op.kind == WriteKind::kPut ? "p:" : "d:", std::string(kConditions.substr(condition, 1)),
      op.condition == Condition::kIfVersion ? absl::StrCat(op.if_version) : "", ":",
      absl::BytesToHexString(op.key), ":", absl::BytesToHexString(op.value), ":",
      op.expiry_unix_ms);
}

StepOp ParseOp(std::string_view text) {
  const std::vector<std::string> parts = Parts(text, ':', 5);
  StepOp op;
  op.kind = parts[0] == "p" ? WriteKind::kPut : WriteKind::kDelete;
  const size_t condition = parts[1].empty() ? kConditions.npos : kConditions.find(parts[1][0]);
  if (condition == kConditions.npos) Refuse(text);
  op.condition = static_cast<Condition>(condition);
  if (op.condition == Condition::kIfVersion) op.if_version = Number(parts[1].substr(1));
  op.key = absl::HexStringToBytes(parts[2]);
  op.value = absl::HexStringToBytes(parts[3]);
  op.expiry_unix_ms = Number(parts[4]);
  return op;
}

std::string StepText(const TakenStep& taken) {
  const Step& step = taken.step;
  std::string text = absl::StrCat(taken.worker, ":", step.atomic ? 1 : 0, ":",
                                  step.applied_index ? absl::StrCat(*step.applied_index) : "-");
  for (const StepOp& op : step.ops) absl::StrAppend(&text, ",", OpText(op));
  return text;
}

TakenStep ParseStep(std::string_view text) {
  const std::vector<std::string> parts = Parts(text, ',', 2);
  const std::vector<std::string> head = Parts(parts[0], ':', 3);
  TakenStep taken;
  taken.worker = Number(head[0]);
  taken.step.atomic = Number(head[1]) != 0;
  if (head[2] != "-") taken.step.applied_index = Number(head[2]);
  for (size_t i = 1; i < parts.size(); ++i) taken.step.ops.push_back(ParseOp(parts[i]));
  return taken;
}

std::string CrashText(const CrashAt& crash) {
  if (!crash.happens) return "-";
  std::string text = absl::StrCat(crash.fence);
  for (const auto& [line, kept] : crash.kept) {
    absl::StrAppend(&text, "_", line, "=", absl::StrJoin(kept, "."));
  }
  return text;
}

CrashAt ParseCrash(std::string_view text) {
  CrashAt crash;
  if (text == "-") return crash;
  crash.happens = true;
  const std::vector<std::string> parts = Parts(text, '_', 1);
  crash.fence = Number(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::vector<std::string> line = Parts(parts[i], '=', 2);
    std::vector<uint16_t>& kept = crash.kept[static_cast<uint32_t>(Number(line[0]))];
    for (const std::string& count : Parts(line[1], '.', 1)) {
      kept.push_back(static_cast<uint16_t>(Number(count)));
    }
  }
  return crash;
}

std::string RunText(const ScriptRun& run) {
  std::string text = absl::StrCat(run.worker, "@", CrashText(run.crash));
  for (const TakenStep& step : run.steps) absl::StrAppend(&text, ";", StepText(step));
  return text;
}

ScriptRun ParseRun(std::string_view text) {
  const std::vector<std::string> parts = Parts(text, ';', 1);
  const std::vector<std::string> head = Parts(parts[0], '@', 2);
  ScriptRun run;
  run.worker = Number(head[0]);
  run.crash = ParseCrash(head[1]);
  for (size_t i = 1; i < parts.size(); ++i) run.steps.push_back(ParseStep(parts[i]));
  return run;
}

std::string WhenOf(const ScriptRun& run) {
  const std::string of = run.steps.empty() ? "opening the pool" : "the last operation";
  if (!run.crash.happens) return absl::StrCat("no crash, a check of the running engine");
  if (run.crash.fence == 0) return absl::StrCat("a crash when ", of, " is done");
  return absl::StrCat("a crash before fence ", run.crash.fence, " of ", of);
}

}  // namespace

std::string ScriptText(const Script& script) {
  return absl::StrJoin(script, "|", [](std::string* out, const ScriptRun& run) {
    absl::StrAppend(out, RunText(run));
  });
}

Script ParseScript(std::string_view text) {
  Script script;
  for (const std::string& run : Parts(text, '|', 1)) script.push_back(ParseRun(run));
  return script;
}

std::string DescribeScript(const Script& script) {
  std::string text;
  for (const ScriptRun& run : script) {
    for (const TakenStep& taken : run.steps) {
      absl::StrAppend(&text, "    ", taken.step.Describe(),
                      taken.worker == 0 ? "" : absl::StrCat(" (thread ", taken.worker, ")"), "\n");
    }
    absl::StrAppend(&text, "    ", WhenOf(run), "\n");
  }
  return text;
}

uint64_t StepsOf(const Script& script) {
  uint64_t steps = 0;
  for (const ScriptRun& run : script) steps += run.steps.size();
  return steps;
}

}  // namespace lodgekv::test
