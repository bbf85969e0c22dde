#include "tests/system/ledger/ledger.h"

#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/support/key_sets.h"

namespace lodgekv::test {
namespace {

constexpr size_t kRangeDigits = 8;
constexpr size_t kPlaceDigits = 4;
constexpr uint64_t kPlaces = uint64_t{1} << kPlaceBits;

std::string FillOf(uint64_t range) { return std::string(range % 4 * 7, '-'); }

std::string KeyText(uint64_t number) {
  return absl::StrFormat("key %d of range %d", number % kPlaces, RangeOf(number));
}

std::string ValueText(const State& state, uint64_t key) {
  const auto it = state.find(key);
  return it == state.end() ? "absent" : absl::StrFormat("%#x", it->second);
}

uint64_t ValueIn(const State& state, uint64_t key) {
  const auto it = state.find(key);
  return it == state.end() ? kAbsent : it->second;
}

// A batch without an answer: applied or not, as a whole. Keys of a range that one thread writes,
// which wrote nothing after it, tell which.
void CheckBatches(const State& before, const Ledger& ledger, const Found& found,
                  Findings& findings) {
  // The state right before the batch: later entries of a thread's key replace earlier ones.
  State last = before;
  std::map<uint64_t, std::set<bool>> applied;
  for (const LedgerEntry& entry : ledger.entries) {
    if (RangeOf(entry.key) == kSharedRange || !entry.op.sets) continue;
    if (entry.op.return_ns != kNeverReturned) {
      last[entry.key] = entry.op.value;
    } else if (entry.batch != 0 && ValueIn(last, entry.key) != entry.op.value) {
      applied[entry.batch].insert(ValueIn(found.values, entry.key) == entry.op.value);
    }
  }
  for (const auto& [batch, answers] : applied) {
    if (answers.size() < 2) continue;
    findings.problems.push_back(absl::StrFormat("atomic batch %#x was applied in part", batch));
  }
}

void CheckShortLived(const Ledger& ledger, const Found& found, Findings& findings) {
  for (const ShortLived& put : ledger.short_lived) {
    const uint64_t now = ValueIn(found.values, put.key);
    const bool must_be_gone = put.last_end_ms < found.begin_ms;
    const bool must_be_there = put.acknowledged && put.first_end_ms > found.end_ms;
    (put.acknowledged ? findings.acknowledged : findings.unknown) += 1;
    if (now == kAbsent ? !must_be_there : now == put.id && !must_be_gone) continue;
    findings.problems.push_back(absl::StrFormat(
        "%s: %s, but %#x was put with an end of life at %d to %d ms, %sacknowledged, and it was "
        "read at %d to %d ms",
        KeyText(put.key), ValueText(found.values, put.key), put.id, put.first_end_ms,
        put.last_end_ms, put.acknowledged ? "" : "not ", found.begin_ms, found.end_ms));
  }
}

}  // namespace

std::string LedgerKey(KeyFormat format, uint64_t number) {
  if (format == KeyFormat::kFixed64) return BigEndian(number);
  const uint64_t range = RangeOf(number);
  return absl::StrFormat("%08x%s%04x", range, FillOf(range), number % kPlaces);
}

std::optional<uint64_t> LedgerNumber(KeyFormat format, std::string_view key) {
  if (format == KeyFormat::kFixed64) {
    return key.size() == 8 ? std::optional(FromBigEndian(key)) : std::nullopt;
  }
  uint32_t range = 0;
  uint32_t place = 0;
  if (key.size() < kRangeDigits + kPlaceDigits ||
      !absl::SimpleHexAtoi(std::string(key.substr(0, kRangeDigits)), &range) ||
      !absl::SimpleHexAtoi(std::string(key.substr(key.size() - kPlaceDigits)), &place)) {
    return std::nullopt;
  }
  const uint64_t number = KeyNumber(range, place);
  return LedgerKey(format, number) == key ? std::optional(number) : std::nullopt;
}

void Ledger::Add(const Ledger& other) {
  entries.insert(entries.end(), other.entries.begin(), other.entries.end());
  short_lived.insert(short_lived.end(), other.short_lived.begin(), other.short_lived.end());
  mistakes.insert(mistakes.end(), other.mistakes.begin(), other.mistakes.end());
}

void Ledger::Write(const std::string& path) const {
  std::ofstream out(path);
  for (const LedgerEntry& entry : entries) {
    const RegisterOp& op = entry.op;
    out << "op " << entry.key << ' ' << static_cast<int>(op.require) << ' ' << op.operand << ' '
        << op.sets << ' ' << op.value << ' ' << op.call_ns << ' ' << op.return_ns << ' '
        << op.thread << ' ' << entry.batch << '\n';
  }
  for (const ShortLived& put : short_lived) {
    out << "short " << put.key << ' ' << put.id << ' ' << put.acknowledged << ' '
        << put.first_end_ms << ' ' << put.last_end_ms << '\n';
  }
  for (const std::string& mistake : mistakes) {
    out << "mistake " << absl::CEscape(mistake) << '\n';
  }
  out << "end\n";
}

absl::StatusOr<Ledger> ReadLedger(const std::string& path) {
  std::ifstream in(path);
  Ledger ledger;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "end") return ledger;
    if (kind == "op") {
      LedgerEntry entry;
      int require = 0;
      words >> entry.key >> require >> entry.op.operand >> entry.op.sets >> entry.op.value >>
          entry.op.call_ns >> entry.op.return_ns >> entry.op.thread >> entry.batch;
      entry.op.require = static_cast<RegisterOp::Require>(require);
      ledger.entries.push_back(entry);
    } else if (kind == "short") {
      ShortLived put;
      words >> put.key >> put.id >> put.acknowledged >> put.first_end_ms >> put.last_end_ms;
      ledger.short_lived.push_back(put);
    } else if (kind == "mistake") {
      ledger.mistakes.push_back(line.substr(kind.size() + 1));
      continue;
    }
    if (!words) return absl::DataLossError(absl::StrCat(path, ": a line is no entry: ", line));
  }
  return absl::DataLossError(
      absl::StrCat(path, " has no end: the client that wrote it ended too early"));
}

std::string Findings::Line() const {
  return absl::StrFormat("acknowledged=%d unknown=%d reads=%d keys=%d problems=%d", acknowledged,
                         unknown, reads, keys, problems.size());
}

Findings Check(const State& before, const Ledger& ledger, const Found& found) {
  Findings findings;
  findings.keys = found.values.size();
  findings.problems = ledger.mistakes;
  findings.problems.insert(findings.problems.end(), found.strangers.begin(), found.strangers.end());
  std::map<uint64_t, std::vector<RegisterOp>> histories;
  for (const LedgerEntry& entry : ledger.entries) {
    histories[entry.key].push_back(entry.op);
    if (!entry.op.sets) {
      ++findings.reads;
    } else {
      (entry.op.return_ns == kNeverReturned ? findings.unknown : findings.acknowledged) += 1;
    }
  }
  std::set<uint64_t> short_lived;
  for (const ShortLived& put : ledger.short_lived) short_lived.insert(put.key);
  for (const State* state : {&before, &found.values}) {
    for (const auto& [key, id] : *state) histories[key];
  }
  for (auto& [key, history] : histories) {
    if (short_lived.contains(key)) continue;
    // Behind all that returned. What did not return may have taken effect before it.
    constexpr int64_t kAfterwards = kNeverReturned - 2;
    history.push_back(
        RegisterOp::Read(ValueIn(found.values, key)).At(kAfterwards, kAfterwards + 1));
    const auto anomaly = FindAnomaly(history, ValueIn(before, key));
    if (!anomaly.has_value()) continue;
    findings.problems.push_back(absl::StrFormat("%s was %s, is %s: %s", KeyText(key),
                                                ValueText(before, key),
                                                ValueText(found.values, key), *anomaly));
  }
  CheckBatches(before, ledger, found, findings);
  CheckShortLived(ledger, found, findings);
  return findings;
}

}  // namespace lodgekv::test
