#include "tests/conformance/model_workload.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace lodgekv::test {
namespace {

constexpr size_t kLargestGroup = 1'024;

constexpr Mix kMixes[] = {
    {.name = "uniform"},
    {.name = "skewed", .pick = Pick::kSkewed, .keys = 30'000},
    {.name = "ascending", .pick = Pick::kAscending, .deletes = 5, .keys = 30'000},
    {.name = "descending", .pick = Pick::kDescending, .deletes = 5, .keys = 30'000},
    {.name = "delete_heavy", .deletes = 60, .conditions = 5, .keys = 3'000},
    {.name = "few_keys", .deletes = 40, .conditions = 50, .expiries = 30, .keys = 60},
};

}  // namespace

std::span<const Mix> Mixes() { return kMixes; }

Workload::Workload(const EngineCase& engine_case, const KeyFamily& family, const Mix& mix,
                   uint64_t stream)
    : case_(engine_case), mix_(mix), random_("workload", stream) {
  for (uint64_t number = 0; number < mix.keys; ++number) keys_.push_back(family.make(number));
  const bool in_order = mix.pick == Pick::kAscending || mix.pick == Pick::kDescending;
  if (in_order) std::sort(keys_.begin(), keys_.end());
}

size_t Workload::NextKey() {
  const size_t count = keys_.size();
  switch (mix_.pick) {
    case Pick::kUniform: break;
    case Pick::kSkewed: {
      const double unit = random_.Unit();
      const auto rank = static_cast<uint64_t>(unit * unit * unit * unit * count);
      return MixBits(rank) % count;
    }
    case Pick::kAscending: return next_in_sequence_++ % count;
    case Pick::kDescending: return count - 1 - next_in_sequence_++ % count;
  }
  return random_.Below(count);
}

size_t Workload::NextGroupSize() {
  if (random_.Percent(60)) return 1;
  if (random_.Percent(90)) return random_.Between(2, 16);
  return random_.Between(17, random_.OneIn(8) ? kLargestGroup : 100);
}

std::string Workload::NextValue() {
  const uint64_t id = ++next_id_;
  if (case_.fixed64()) return ValueOf(case_.key_format, id);
  size_t size = random_.Below(12);
  if (random_.OneIn(2)) size = random_.Below(100);
  if (random_.OneIn(50)) size = random_.Below(3'000);
  if (random_.OneIn(4'000)) size = random_.Below(200'000);
  std::string value = ValueOf(case_.key_format, id, size);
  value.resize(size);
  return value;
}

void Workload::SetCondition(WriteOp& op) {
  switch (random_.Below(case_.has_versions() ? 3 : 2)) {
    case 0: op.condition = Condition::kIfAbsent; break;
    case 1: op.condition = Condition::kIfPresent; break;
    default: op.condition = Condition::kIfVersion; break;
  }
}

WorkGroup Workload::NextGroup(uint64_t now_unix_ms) {
  WorkGroup group;
  group.options.now_unix_ms = now_unix_ms;
  group.options.atomic = random_.Percent(mix_.atomic_groups);
  if (group.options.atomic && random_.OneIn(2)) {
    group.options.applied_index = ++next_applied_index_;
  }
  // Few atomic groups fail, so that many apply: few have conditions, few a key twice.
  const bool conditions = !group.options.atomic || random_.OneIn(8);
  const bool twice = !group.options.atomic || random_.OneIn(16);
  std::unordered_set<std::string_view> seen;
  for (size_t size = NextGroupSize(); size > 0; --size) {
    const size_t key = NextKey();
    if (!seen.insert(keys_[key]).second && !twice) continue;
    WriteOp op;
    op.key = keys_[key];
    if (random_.Percent(mix_.deletes)) {
      op.kind = WriteKind::kDelete;
    } else {
      op.value = group.bytes.emplace_back(NextValue());
      if (case_.has_versions() && random_.Percent(mix_.expiries)) {
        op.expiry_unix_ms = now_unix_ms + random_.Below(5'000);
      }
    }
    if (conditions && random_.Percent(mix_.conditions)) SetCondition(op);
    group.ops.push_back(op);
    group.keys.push_back(key);
  }
  return group;
}

}  // namespace lodgekv::test
