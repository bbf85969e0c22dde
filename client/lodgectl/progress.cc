#include "client/lodgectl/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace lodgekv::lodgectl {
namespace {

constexpr int kBarWidth = 40;
constexpr absl::Duration kInterval = absl::Milliseconds(100);
constexpr char kClearLine[] = "\r\x1b[K";

}  // namespace

Progress::Progress(uint64_t total_bytes)
    : total_bytes_(total_bytes),
      visible_(isatty(STDERR_FILENO) == 1),
      start_(absl::Now()),
      next_(start_ + kInterval) {}

Progress::~Progress() {
  if (visible_) std::fputs(kClearLine, stderr);
}

void Progress::Update(uint64_t bytes, uint64_t records) {
  if (!visible_) return;
  const absl::Time now = absl::Now();
  if (now < next_) return;
  next_ = now + kInterval;
  std::string line = kClearLine;
  if (total_bytes_ > 0) {
    const double share = std::min(1.0, static_cast<double>(bytes) / total_bytes_);
    std::string bar(static_cast<size_t>(share * kBarWidth), '=');
    bar.resize(kBarWidth, ' ');
    absl::StrAppendFormat(&line, "[%s] %3.0f %%  ", bar, share * 100);
  }
  absl::StrAppendFormat(&line, "%d acknowledged, %.0f/s", records,
                        records / absl::ToDoubleSeconds(now - start_));
  std::fputs(line.c_str(), stderr);
}

}  // namespace lodgekv::lodgectl
