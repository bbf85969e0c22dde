#include "server/rpc/scan_pager.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "server/rpc/errors.h"

namespace lodgekv::server {
namespace {

constexpr size_t kFixedBytes = 8;
// The engines' own limit for a key.
constexpr size_t kMaxBoundBytes = 65'535;

// A bound of a range. In a fixed64 pool it may be a shorter prefix of a key.
std::optional<grpc::Status> CheckBound(std::string_view bound, std::string_view field,
                                       const CheckContext& context) {
  const bool fixed = context.pool.key_format == KeyFormat::kFixed64;
  const size_t most = fixed ? kFixedBytes : kMaxBoundBytes;
  if (bound.size() <= most) return std::nullopt;
  return InvalidFieldError(field, fixed ? "NOT_IN_KEY_FORMAT" : "KEY_TOO_LONG",
                           fmt::format("{}: {} bytes, more than {}, the most of key format {}",
                                       field, bound.size(), most, context.pool.Name()));
}

// Among keys of 8 bytes a shorter bound sorts as if padded with zeros.
void PadBound(std::string& bound, KeyFormat format) {
  if (format == KeyFormat::kFixed64 && !bound.empty()) bound.resize(kFixedBytes, '\0');
}

uint64_t AtMost(uint64_t asked, uint64_t limit) {
  return asked == 0 ? limit : std::min(asked, limit);
}

}  // namespace

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

std::optional<grpc::Status> ScanPager::Start(const v1::ScanRequest& request,
                                             const CheckContext& context) {
  auto error = CheckBound(request.start(), "start", context);
  if (!error) error = CheckBound(request.end(), "end", context);
  if (!error) error = CheckBound(request.prefix(), "prefix", context);
  if (!error) error = CheckBound(request.continuation(), "continuation", context);
  if (error) return error;
  start_ = std::max(request.start(), request.prefix());
  end_ = request.end();
  const std::string prefix_end = PrefixEnd(request.prefix());
  if (!prefix_end.empty() && (end_.empty() || prefix_end < end_)) end_ = prefix_end;
  PadBound(start_, context.pool.key_format);
  PadBound(end_, context.pool.key_format);
  resume_ = request.continuation();
  if (!resume_.empty() && (resume_ < start_ || (!end_.empty() && resume_ >= end_))) {
    return InvalidFieldError(
        "continuation", "BAD_CONTINUATION",
        "continuation: it lies outside of the range; pass it back with the start, "
        "end, prefix and reverse of the scan that it came from");
  }
  reverse_ = request.reverse();
  keys_only_ = request.keys_only();
  limited_ = request.limit() != 0;
  remaining_ = request.limit();
  max_items_ = AtMost(request.page_items(), context.limits.scan_page_items);
  max_bytes_ = AtMost(request.page_bytes(), context.limits.scan_page_size);
  done_ = false;
  return std::nullopt;
}

uint64_t ScanPager::MostBytes(const Limits& limits) const {
  const uint64_t one = limits.max_key_size + (keys_only_ ? 0 : limits.max_value_size);
  return std::max(max_bytes_, one);
}

ScanOptions ScanPager::Options(uint64_t now_unix_ms) const {
  ScanOptions options;
  options.start = start_;
  if (!end_.empty()) options.end = end_;
  if (!resume_.empty() && reverse_) options.end = resume_;
  if (!resume_.empty() && !reverse_) options.start = resume_;
  options.reverse = reverse_;
  options.keys_only = keys_only_;
  // One more shows whether there is an item after the page; and one more, since a forward scan
  // begins with the last key of the previous page, if that still exists.
  options.limit = NextItems() + 2;
  options.now_unix_ms = now_unix_ms;
  return options;
}

bool ScanPager::Visit(const ScanItem& item, uint64_t most_bytes, PageWriter& page) {
  if (!reverse_ && !resume_.empty() && item.key == resume_) return true;
  const uint64_t bytes = item.key.size() + item.value.size();
  if (page.items() == NextItems() || (page.items() != 0 && used_bytes_ + bytes > most_bytes)) {
    more_ = true;
    return false;
  }
  used_bytes_ += bytes;
  page.Add(item, keys_only_);
  return true;
}

Outcome ScanPager::NextPage(Engine& engine, uint64_t now_unix_ms, uint64_t most_bytes,
                            PageWriter& page) {
  const uint64_t most = std::min(most_bytes, max_bytes_);
  used_bytes_ = 0;
  more_ = false;
  const Outcome outcome = engine.Scan(
      Options(now_unix_ms), [&](const ScanItem& item) { return Visit(item, most, page); });
  if (outcome != Outcome::kOk) return outcome;
  remaining_ -= limited_ ? page.items() : 0;
  if (more_) {
    resume_ = page.last_key();
    page.SetContinuation(resume_);
  }
  done_ = !more_ || (limited_ && remaining_ == 0);
  return Outcome::kOk;
}

}  // namespace lodgekv::server
