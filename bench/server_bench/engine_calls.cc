#include "bench/server_bench/engine_calls.h"

#include <algorithm>
#include <span>

namespace lodgekv::server_bench {
namespace {

// As the daemon looks keys up.
constexpr size_t kKeysPerLookup = 16;

}  // namespace

bool EngineCalls::Make(const std::vector<Record>& records) {
  switch (kind_) {
    case CallKind::kPut:
    case CallKind::kSessionPut:
    case CallKind::kBatchWrite: return Write(records);
    case CallKind::kGet:
    case CallKind::kSessionGet:
    case CallKind::kBatchGet: return Read(records);
    case CallKind::kScan: return Scan(records);
    case CallKind::kScanAll: break;
  }
  return false;
}

bool EngineCalls::Write(const std::vector<Record>& records) {
  ops_.clear();
  for (const Record& record : records) ops_.push_back({.key = record.key, .value = record.value});
  written_.assign(ops_.size(), {});
  return engine_.Write(ops_, written_, {.atomic = kind_ == CallKind::kBatchWrite}) == Outcome::kOk;
}

bool EngineCalls::Read(const std::vector<Record>& records) {
  keys_.clear();
  for (const Record& record : records) keys_.push_back(record.key);
  read_.resize(kKeysPerLookup);
  bool ok = true;
  for (size_t begin = 0; begin < keys_.size(); begin += kKeysPerLookup) {
    const auto part =
        std::span(keys_).subspan(begin, std::min(kKeysPerLookup, keys_.size() - begin));
    ok &= engine_.Read(part, std::span(read_).first(part.size()), {}) == Outcome::kOk;
  }
  return ok;
}

// Items are copied, as they are into a page.
bool EngineCalls::Scan(const std::vector<Record>& records) {
  page_.clear();
  const ScanOptions options{.start = records.front().key, .limit = records.size()};
  const Outcome outcome = engine_.Scan(options, [&](const ScanItem& item) {
    page_ += item.key;
    page_ += item.value;
    return true;
  });
  return outcome == Outcome::kOk;
}

}  // namespace lodgekv::server_bench
