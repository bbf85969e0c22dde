#include "tests/support/linearizability.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <sstream>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

using Require = RegisterOp::Require;

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool Allows(const RegisterOp& op, uint64_t state) {
  switch (op.require) {
    case Require::kAnything: return true;
    case Require::kEquals: return state == op.operand;
    case Require::kDiffers: return state != op.operand;
  }
  return false;
}

void Describe(std::ostream& out, const RegisterOp& op, int64_t origin_ns) {
  out << "\n  [" << op.call_ns - origin_ns << ", ";
  if (op.return_ns == kNeverReturned) {
    out << "never";
  } else {
    out << op.return_ns - origin_ns;
  }
  out << "] thread " << op.thread << ":";
  if (op.require == Require::kEquals) out << " saw " << op.operand;
  if (op.require == Require::kDiffers) out << " saw another than " << op.operand;
  if (op.sets) out << " set " << op.value;
}

// The operations that overlap `op`, or nearly.
std::string DescribeAround(std::span<const RegisterOp> history, const RegisterOp& op,
                           std::string_view what) {
  constexpr size_t kShown = 12;
  std::vector<RegisterOp> sorted(history.begin(), history.end());
  std::sort(sorted.begin(), sorted.end(), [](const RegisterOp& a, const RegisterOp& b) {
    return std::pair(a.call_ns, a.return_ns) < std::pair(b.call_ns, b.return_ns);
  });
  std::ostringstream out;
  out << what << " at";
  Describe(out, op, op.call_ns);
  out << "\nof " << history.size() << " operations, around it";
  const auto at = std::lower_bound(
      sorted.begin(), sorted.end(), op,
      [](const RegisterOp& a, const RegisterOp& b) { return a.call_ns < b.call_ns; });
  const auto begin = at - std::min<ptrdiff_t>(kShown / 2, at - sorted.begin());
  const auto end = at + std::min<ptrdiff_t>(kShown / 2, sorted.end() - at);
  for (auto it = begin; it != end; ++it) Describe(out, *it, op.call_ns);
  return out.str();
}

// All operations on one value: its write and its reads. `first_return` and `last_call` span the
// time in which the value was certainly the current one or, if in reverse order, can have been.
struct Cluster {
  bool written = false;
  int64_t write_call = std::numeric_limits<int64_t>::min();
  int64_t first_return = std::numeric_limits<int64_t>::max();
  int64_t last_call = std::numeric_limits<int64_t>::min();
  const RegisterOp* last = nullptr;  // whose call is last_call

  bool forward() const { return first_return < last_call; }
  void Add(const RegisterOp& op) {
    first_return = std::min(first_return, op.return_ns);
    if (last == nullptr || op.call_ns > last_call) {
      last_call = op.call_ns;
      last = &op;
    }
  }
};

// A possible result of the operations called so far.
struct Configuration {
  uint64_t state = 0;
  uint64_t done = 0;  // bit per slot of the pending operations: it has taken effect

  bool operator==(const Configuration&) const = default;
};

struct ConfigurationHash {
  size_t operator()(const Configuration& c) const { return MixBits(c.state ^ MixBits(c.done)); }
};

class JustInTime {
 public:
  explicit JustInTime(uint64_t initial) : configurations_{{initial, 0}} {}

  uint32_t Call(const RegisterOp& op) {
    if (free_ == 0) throw std::length_error("more than 64 operations overlap");
    const auto slot = static_cast<uint32_t>(std::countr_zero(free_));
    free_ &= free_ - 1;
    pending_[slot] = &op;
    return slot;
  }

  // False if no sequence of the pending operations lets the one in `slot` return.
  bool Return(uint32_t slot) {
    const uint64_t bit = uint64_t{1} << slot;
    std::unordered_set<Configuration, ConfigurationHash> seen;
    std::unordered_set<Configuration, ConfigurationHash> reached;
    std::vector<Configuration> work;
    for (const Configuration& c : configurations_) Visit(c, seen, work);
    while (!work.empty()) {
      const Configuration c = work.back();
      work.pop_back();
      if ((c.done & bit) != 0) {
        reached.insert({c.state, c.done & ~bit});
        continue;
      }
      for (uint64_t rest = Pending() & ~c.done; rest != 0; rest &= rest - 1) {
        const auto next = static_cast<uint32_t>(std::countr_zero(rest));
        const RegisterOp& op = *pending_[next];
        if (!Allows(op, c.state)) continue;
        Visit({op.sets ? op.value : c.state, c.done | uint64_t{1} << next}, seen, work);
      }
    }
    free_ |= bit;
    configurations_ = std::move(reached);
    return !configurations_.empty();
  }

 private:
  using Set = std::unordered_set<Configuration, ConfigurationHash>;

  uint64_t Pending() const { return ~free_; }

  // Operations that change nothing take effect as soon as possible: that excludes no continuation.
  void Visit(Configuration c, Set& seen, std::vector<Configuration>& work) const {
    for (uint64_t rest = Pending() & ~c.done; rest != 0; rest &= rest - 1) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(rest));
      const RegisterOp& op = *pending_[slot];
      if (!op.sets && Allows(op, c.state)) c.done |= uint64_t{1} << slot;
    }
    if (seen.insert(c).second) work.push_back(c);
  }

  uint64_t free_ = ~uint64_t{0};
  const RegisterOp* pending_[64] = {};
  Set configurations_;
};

struct Event {
  int64_t time_ns;
  bool is_return;  // at equal times calls come first: they overlap
  size_t op;

  bool operator<(const Event& o) const {
    return std::pair(time_ns, is_return) < std::pair(o.time_ns, o.is_return);
  }
};

std::vector<Event> EventsOf(std::span<const RegisterOp> history) {
  std::vector<Event> events;
  events.reserve(history.size() * 2);
  for (size_t i = 0; i < history.size(); ++i) {
    events.push_back({history[i].call_ns, false, i});
    if (history[i].return_ns != kNeverReturned) events.push_back({history[i].return_ns, true, i});
  }
  std::stable_sort(events.begin(), events.end());
  return events;
}

using Clusters = std::unordered_map<uint64_t, Cluster>;

Clusters ClustersOf(std::span<const RegisterOp> history, uint64_t initial) {
  Clusters clusters;
  Cluster& first = clusters[initial];
  first.written = true;
  first.first_return = std::numeric_limits<int64_t>::min();
  for (const RegisterOp& op : history) {
    if (!op.sets && op.return_ns == kNeverReturned)
      continue;  // a read without an answer gives no information
    Cluster& cluster = clusters[op.sets ? op.value : op.operand];
    if (op.sets) {
      cluster.written = true;
      cluster.write_call = op.call_ns;
    }
    cluster.Add(op);
  }
  return clusters;
}

}  // namespace

RegisterOp RegisterOp::Read(uint64_t value) {
  return {.require = Require::kEquals, .operand = value};
}

RegisterOp RegisterOp::Write(uint64_t value) { return {.sets = true, .value = value}; }

RegisterOp RegisterOp::Delete(bool found) {
  if (!found) return Read(kAbsent);
  return {.require = Require::kDiffers, .operand = kAbsent, .sets = true, .value = kAbsent};
}

RegisterOp RegisterOp::WriteIfAbsent(uint64_t value, bool applied) {
  return CompareAndSet(kAbsent, value, applied);
}

RegisterOp RegisterOp::WriteIfPresent(uint64_t value, bool applied) {
  if (!applied) return Read(kAbsent);
  return {.require = Require::kDiffers, .operand = kAbsent, .sets = true, .value = value};
}

RegisterOp RegisterOp::CompareAndSet(uint64_t expected, uint64_t value, bool applied) {
  if (!applied) return {.require = Require::kDiffers, .operand = expected};
  return {.require = Require::kEquals, .operand = expected, .sets = true, .value = value};
}

RegisterOp RegisterOp::At(int64_t call, int64_t ret, uint32_t by_thread) const {
  RegisterOp op = *this;
  op.call_ns = call;
  op.return_ns = ret;
  op.thread = by_thread;
  return op;
}

int64_t TimeOfCall() {
  const int64_t now = Now();
  _mm_lfence();
  return now;
}

int64_t TimeOfReturn() {
  _mm_mfence();
  return Now();
}

bool HasUniqueWrites(std::span<const RegisterOp> history, uint64_t initial) {
  std::unordered_set<uint64_t> written = {initial};
  for (const RegisterOp& op : history) {
    const bool plain_write = op.sets && op.require == Require::kAnything;
    const bool plain_read = !op.sets && op.require == Require::kEquals;
    if (!plain_write && !plain_read) return false;
    if (plain_write && !written.insert(op.value).second) return false;
  }
  return true;
}

// Value A must come before value B when an operation on A returned before one on B was called. Such
// an order exists unless two values must each come before the other: that is so when two forward
// zones overlap, or a backward zone lies in a forward one.
std::optional<std::string> FindAnomalyByZones(std::span<const RegisterOp> history,
                                              uint64_t initial) {
  const Clusters clusters = ClustersOf(history, initial);
  for (const RegisterOp& op : history) {
    if (op.sets || op.return_ns == kNeverReturned) continue;
    const Cluster& cluster = clusters.at(op.operand);
    if (!cluster.written) return DescribeAround(history, op, "a value that nobody wrote was read");
    if (op.return_ns < cluster.write_call) {
      return DescribeAround(history, op, "a value was read before its write was called");
    }
  }
  std::vector<const Cluster*> forward;
  for (const auto& [value, cluster] : clusters) {
    if (cluster.forward()) forward.push_back(&cluster);
  }
  std::sort(forward.begin(), forward.end(),
            [](const Cluster* a, const Cluster* b) { return a->first_return < b->first_return; });
  for (size_t i = 1; i < forward.size(); ++i) {
    if (forward[i]->first_return < forward[i - 1]->last_call) {
      return DescribeAround(history, *forward[i - 1]->last,
                            "a value was read after another had replaced it");
    }
  }
  for (const auto& [value, cluster] : clusters) {
    if (cluster.forward() || cluster.last == nullptr) continue;
    const auto after = std::lower_bound(
        forward.begin(), forward.end(), cluster.last_call,
        [](const Cluster* zone, int64_t call) { return zone->first_return < call; });
    if (after != forward.begin() && cluster.first_return < (*(after - 1))->last_call) {
      return DescribeAround(history, *cluster.last,
                            "a value was current while another was, before and after it");
    }
  }
  return std::nullopt;
}

std::optional<std::string> FindAnomalyJustInTime(std::span<const RegisterOp> history,
                                                 uint64_t initial) {
  JustInTime checker(initial);
  std::vector<uint32_t> slots(history.size());
  for (const Event& event : EventsOf(history)) {
    if (!event.is_return) {
      slots[event.op] = checker.Call(history[event.op]);
    } else if (!checker.Return(slots[event.op])) {
      return DescribeAround(history, history[event.op], "no order of the operations explains that");
    }
  }
  return std::nullopt;
}

std::optional<std::string> FindAnomaly(std::span<const RegisterOp> history, uint64_t initial) {
  if (HasUniqueWrites(history, initial)) return FindAnomalyByZones(history, initial);
  return FindAnomalyJustInTime(history, initial);
}

}  // namespace lodgekv::test
