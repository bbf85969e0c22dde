#include <mutex>
#include <utility>

#include "index/dram/dram_engine.h"

namespace lodgekv::dram {
namespace {

constexpr size_t kPageItems = 256;
constexpr size_t kPageBytes = size_t{1} << 20;

}  // namespace

Outcome DramEngine::Scan(const ScanOptions& options, ScanVisitor visitor) {
  uint64_t visited = 0;
  std::string resume;
  for (bool resumed = false;; resumed = true) {
    Page page = CopyPage(options, resume, resumed);
    for (const Page::Item& item : page.items) {
      const bool more = visitor({.key = item.key,
                                 .value = item.value.bytes,
                                 .version = item.value.version,
                                 .expiry_unix_ms = item.value.expiry_unix_ms});
      if (!more || ++visited == options.limit) return Outcome::kOk;
    }
    if (page.last) return Outcome::kOk;
    resume = std::move(page.items.back().key);
  }
}

// Copies at most one page of live pairs, beginning after `resume` in the scan's direction.
DramEngine::Page DramEngine::CopyPage(const ScanOptions& options, const std::string& resume,
                                      bool resumed) const {
  const std::shared_lock lock(mutex_);
  auto begin = map_.lower_bound(options.start);
  auto end = options.end ? map_.lower_bound(*options.end) : map_.end();
  Page page;
  page.last = true;
  if (options.end && *options.end <= options.start) return page;
  if (resumed && options.reverse) end = map_.lower_bound(resume);
  if (resumed && !options.reverse) begin = map_.upper_bound(resume);
  size_t bytes = 0;
  while (begin != end) {
    if (page.items.size() == kPageItems || bytes >= kPageBytes) {
      page.last = false;
      return page;
    }
    const auto it = options.reverse ? --end : begin++;
    const auto& [key, value] = *it;
    if (!value.LiveAt(options.now_unix_ms)) continue;
    page.items.push_back({key, value});
    if (options.keys_only) page.items.back().value.bytes.clear();
    bytes += key.size() + page.items.back().value.bytes.size();
  }
  return page;
}

}  // namespace lodgekv::dram
