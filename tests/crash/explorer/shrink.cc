#include "tests/crash/explorer/shrink.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/crash/explorer/replay.h"
#include "tests/crash/lab/isolated.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kImages = 200'000;
constexpr uint64_t kTrials = 4'000;
constexpr uint64_t kVariants = 4;
constexpr unsigned kSeconds = 60 * kSanitizerSlowdown;
constexpr char kEndOfScript = '\n';

class Shrinker {
 public:
  explicit Shrinker(const ExplorerOptions& options) : replay_(options) {}

  // Returns none if the script alone does not fail.
  std::optional<Replay::Failure> Run(const Script& script) {
    best_ = replay_.Run(script, Replay::Way::kExactly, 0);
    if (!best_ && !Try(script)) return {};
    for (bool smaller = true; smaller && !Spent();) {
      smaller = DropRuns();
      smaller |= DropSteps();
      smaller |= DropAtRandom();
      smaller |= DropOps();
      smaller |= ShortenValues();
    }
    KeepLines();
    return std::move(best_);
  }

 private:
  bool Spent() const { return trials_ >= kTrials || replay_.images() >= kImages; }

  // Adopts `script` if it fails.
  bool Try(const Script& script) {
    const uint64_t variants = script.size() > 1 ? kVariants : 1;
    for (uint64_t variant = 0; variant < variants && !Spent(); ++variant) {
      ++trials_;
      auto failure = replay_.Run(script, Replay::Way::kAround, variant);
      if (!failure) continue;
      best_ = std::move(failure);
      return true;
    }
    return false;
  }

  const Script& best() const { return best_->script; }

  // Drops a run, or merges two runs into one.
  bool DropRuns() {
    bool any = false;
    for (size_t i = 0; i + 1 < best().size() && !Spent();) {
      Script without = best();
      without.erase(without.begin() + static_cast<ptrdiff_t>(i));
      Script joined = without;
      const std::vector<TakenStep>& steps = best()[i].steps;
      joined[i].steps.insert(joined[i].steps.begin(), steps.begin(), steps.end());
      if (Try(without) || Try(joined)) {
        any = true;
      } else {
        ++i;
      }
    }
    return any;
  }

  // Halves first, then smaller and smaller pieces.
  bool DropSteps() {
    bool any = false;
    for (size_t run = 0; run < best().size(); ++run) {
      for (size_t piece = std::max<size_t>(1, best()[run].steps.size() / 2);; piece /= 2) {
        for (size_t at = 0; run < best().size() && at < best()[run].steps.size() && !Spent();) {
          Script shorter = best();
          std::vector<TakenStep>& steps = shorter[run].steps;
          const size_t end = std::min(at + piece, steps.size());
          steps.erase(steps.begin() + static_cast<ptrdiff_t>(at),
                      steps.begin() + static_cast<ptrdiff_t>(end));
          if (Try(shorter)) {
            any = true;
          } else {
            at = end;
          }
        }
        if (piece <= 1) break;
      }
    }
    return any;
  }

  // Drops steps that can only be dropped together.
  bool DropAtRandom() {
    constexpr int kTries = 100;
    bool any = false;
    for (int i = 0; i < kTries && StepsOf(best()) > 1 && !Spent(); ++i) {
      Script shorter = best();
      const uint64_t one_in = random_.Between(2, StepsOf(shorter));
      for (ScriptRun& run : shorter) {
        std::erase_if(run.steps, [&](const TakenStep&) { return random_.OneIn(one_in); });
      }
      if (StepsOf(shorter) < StepsOf(best()) && Try(shorter)) any = true;
    }
    return any;
  }

  // Calls change(step) for each step; if it returns true, the changed script is tried.
  template <class Change>
  bool ForEachStep(Change change) {
    bool any = false;
    for (size_t run = 0; run < best().size(); ++run) {
      for (size_t i = 0; run < best().size() && i < best()[run].steps.size() && !Spent(); ++i) {
        Script other = best();
        if (change(other[run].steps[i].step) && Try(other)) any = true;
      }
    }
    return any;
  }

  bool DropOps() {
    bool any = false;
    for (size_t op = 0; op < 8; ++op) {
      any |= ForEachStep([op](Step& step) {
        if (step.ops.size() < 2 || op >= step.ops.size()) return false;
        step.ops.erase(step.ops.begin() + static_cast<ptrdiff_t>(op));
        return true;
      });
    }
    return any;
  }

  bool ShortenValues() {
    return ForEachStep([](Step& step) {
      constexpr size_t kShort = 8;
      bool any = false;
      for (StepOp& op : step.ops) {
        any |= op.value.size() > kShort;
        if (op.value.size() > kShort) op.value.resize(kShort);
      }
      return any;
    });
  }

  // Keeps lost only the lines whose loss matters.
  void KeepLines() {
    for (size_t run = 0; run < best().size(); ++run) {
      const KeptOfLines lines = best()[run].crash.kept;
      for (const auto& [line, kept] : lines) {
        if (run >= best().size() || Spent()) return;
        Script other = best();
        std::vector<uint16_t>& of_line = other[run].crash.kept[line];
        std::fill(of_line.begin(), of_line.end(), UINT16_MAX);
        ++trials_;
        auto failure = replay_.Run(other, Replay::Way::kExactly, 0);
        if (failure) best_ = std::move(failure);
      }
    }
  }

  Replay replay_;
  std::optional<Replay::Failure> best_;
  Random random_{"shrink"};
  uint64_t trials_ = 0;
};

std::string Report(const ExplorerOptions& options, const Script& script) {
  const auto found = Shrinker(options).Run(script);
  if (!found) return "";
  return absl::StrCat(ScriptText(found->script), std::string(1, kEndOfScript),
                      "  the shortest sequence that was found to fail: ", StepsOf(found->script),
                      " operations of ", StepsOf(script), ", ", found->script.size() - 1,
                      " crashes of ", script.size() - 1, " before the last\n",
                      DescribeScript(found->script), "  what fails: ", found->what, "\n",
                      found->lines);
}

}  // namespace

Shrunk Shrink(const ExplorerOptions& options, const Script& script) {
  const IsolatedResult result = RunIsolated(kSeconds, [&] { return Report(options, script); });
  if (!result.death.empty()) {
    return {absl::StrCat("  it could not be made smaller: the attempt ", result.death, "\n"), ""};
  }
  if (result.report.empty()) return {"  its steps alone do not fail\n", ""};
  const size_t end = result.report.find(kEndOfScript);
  return {result.report.substr(end + 1), result.report.substr(0, end)};
}

}  // namespace lodgekv::test
