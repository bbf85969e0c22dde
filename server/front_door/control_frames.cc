#include "server/front_door/control_frames.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace lodgekv::server {
namespace {

using std::chrono::seconds;

// RFC 9113, sections 3.4 and 6.
constexpr uint32_t kPrefaceBytes = 24;
constexpr uint8_t kPrefaceBegin = 'P';  // no frame is long enough for that
enum Kind : uint8_t { kData = 0, kHeaders = 1 };
constexpr uint8_t kEndStream = 0x1;
constexpr uint8_t kPadded = 0x8;

// gRPC puts so many bytes before a message: less is a part of one, at the edge of a window.
constexpr uint32_t kLeastData = 5;

}  // namespace

int64_t FrameFinder::Find(std::span<const uint8_t> bytes) {
  if (!begun_ && !bytes.empty()) {
    begun_ = true;
    if (bytes.front() == kPrefaceBegin) to_skip_ = kPrefaceBytes;
  }
  int64_t found = 0;
  while (!bytes.empty()) {
    const size_t skipped = std::min<size_t>(to_skip_, bytes.size());
    to_skip_ -= static_cast<uint32_t>(skipped);
    bytes = bytes.subspan(skipped);
    const size_t taken = std::min(kHeadBytes - have_, bytes.size());
    std::copy_n(bytes.begin(), taken, head_.begin() + have_);
    have_ += taken;
    bytes = bytes.subspan(taken);
    if (have_ < kHeadBytes) break;
    have_ = 0;
    to_skip_ = Length();
    found += Weigh();
  }
  return found;
}

uint32_t FrameFinder::Length() const {
  return uint32_t{head_[0]} << 16 | uint32_t{head_[1]} << 8 | head_[2];
}

int64_t FrameFinder::Weigh() const {
  const uint8_t flags = head_[4];
  switch (head_[3]) {
    case kHeaders: return -kPerRequest;
    case kData: {
      const bool ends = (flags & kEndStream) != 0;
      const bool padded = (flags & kPadded) != 0;  // gRPC refuses these
      return padded || (Length() < kLeastData && !ends) ? 1 : 0;
    }
    default: return 1;
  }
}

ControlFrames::Part& ControlFrames::PartOf(const void* connection) {
  return parts_[absl::HashOf(connection) % kParts];
}

ControlFrames::Verdict ControlFrames::Add(const void* connection, std::span<const uint8_t> bytes) {
  Part& part = PartOf(connection);
  const std::lock_guard lock(part.mutex);
  Counted& counted = part.connections[connection];
  if (counted.ended) return Verdict::kEnded;
  counted.count = std::max<int64_t>(0, counted.count + counted.finder.Find(bytes));
  if (counted.count <= kMostPerSecond) return Verdict::kFew;
  const Time now = clock_();
  counted.ended = now - counted.since < seconds(1);
  if (counted.ended) return Verdict::kTooMany;
  counted.count = 0;
  counted.since = now;
  return Verdict::kFew;
}

void ControlFrames::Forget(const void* connection) {
  Part& part = PartOf(connection);
  const std::lock_guard lock(part.mutex);
  part.connections.erase(connection);
}

size_t ControlFrames::size() {
  size_t sum = 0;
  for (Part& part : parts_) {
    const std::lock_guard lock(part.mutex);
    sum += part.connections.size();
  }
  return sum;
}

}  // namespace lodgekv::server
