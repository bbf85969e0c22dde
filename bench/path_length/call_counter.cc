#include "bench/path_length/call_counter.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "bench/path_length/counted_call.h"

namespace lodgekv::bench {
namespace {

constexpr std::string_view kLetters = ".fs";  // by Way
static_assert(kLetters.size() == kWays);

}  // namespace

void CallCounter::Call(Path path, absl::FunctionRef<void()> call) {
  if (!HasWays(path)) {
    ++calls_[static_cast<size_t>(path)][static_cast<size_t>(Way::kShort)];
    CountedCallOf(path, Way::kShort)(call);
    return;
  }
  const Events before = CountEvents();
  CountedCallOf(path, Expected())(call);
  const Events after = CountEvents();
  Way way = Way::kShort;
  if (after.flushes > before.flushes) way = Way::kFlush;
  if (after.splits > before.splits) way = Way::kSplit;
  ways_ += kLetters[static_cast<size_t>(way)];
  ++calls_[static_cast<size_t>(path)][static_cast<size_t>(way)];
}

absl::Status CallCounter::CheckRepeated() const {
  if (noted_.empty() || noted_ == ways_) return absl::OkStatus();
  const auto apart = std::mismatch(ways_.begin(), ways_.end(), noted_.begin(), noted_.end()).first;
  return absl::FailedPreconditionError(
      absl::StrCat("call ", apart - ways_.begin(), " of ", ways_.size(),
                   " took another way than in the run that noted them: this engine does not "
                   "repeat, and its paths cannot be told apart"));
}

CallCounter::Events CallCounter::CountEvents() const {
  Events events;
  engine_.VisitCounters([&](const CounterSample& sample) {
    if (sample.name.ends_with("flushes_total")) events.flushes += sample.value;
    if (sample.name.ends_with("splits_total")) events.splits += sample.value;
  });
  return events;
}

Way CallCounter::Expected() const {
  if (ways_.size() >= noted_.size()) return Way::kShort;
  const size_t letter = kLetters.find(noted_[ways_.size()]);
  return letter == std::string_view::npos ? Way::kShort : static_cast<Way>(letter);
}

}  // namespace lodgekv::bench
