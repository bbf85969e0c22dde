#include "tests/corruption/interrogation.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/engine_calls.h"
#include "tests/support/key_sets.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kLargeEvery = 60;
constexpr uint64_t kWorkedOn = 250;  // keys: where libpmemobj is damaged its calls may take long

std::string KeyOf(const EngineCase& engine_case, uint64_t number) {
  if (engine_case.fixed64() || number % 3 == 0) return BigEndian(number << 8);
  return OrderedKey(KeyFormat::kBytes, number);
}

std::string ValueFor(const EngineCase& engine_case, uint64_t number) {
  if (engine_case.fixed64()) return BigEndian(number);
  // Short inline pairs, ordinary records, and some larger than a chunk's units.
  if (number % 4 == 0) return BigEndian(number).substr(4);
  if (number % 4 == 1) return BigEndian(number);
  return ValueOf(KeyFormat::kBytes, number, number % kLargeEvery == 2 ? 9000 : 10 + number % 90);
}

std::string FirstProblem(const CheckReport& report) {
  return report.problems.empty() ? "" : report.problems.front();
}

// The result of reads and a scan: the number of DATA_LOSS answers, or what was wrong.
struct Answers {
  uint64_t lost = 0;
  std::string missing;
  std::string wrong;
};

// Also returns the content that was answered.
Content AskForKeys(Engine& engine, const Content& content, Answers& answers) {
  Content answered;
  for (const auto& [key, value] : content) {
    const ReadResult read = Get(engine, key);
    if (read.outcome == Outcome::kDataLoss) {
      ++answers.lost;
    } else if (read.outcome != Outcome::kOk || !read.found) {
      answers.missing = absl::StrCat("key ", Show(key), " is not found");
    } else if (read.value != value) {
      answers.wrong =
          absl::StrCat("key ", Show(key), " has ", Show(read.value), " instead of ", Show(value));
    } else {
      answered.emplace(key, value);
    }
  }
  return answered;
}

// A scan that damage does not end sees everything, and in any case nothing else.
void AskForAll(Engine& engine, const Content& content, Answers& answers) {
  uint64_t seen = 0;
  const Outcome outcome = engine.Scan({}, [&](const ScanItem& item) {
    ++seen;
    const auto known = content.find(std::string(item.key));
    if (known == content.end() || known->second != item.value) {
      answers.wrong = absl::StrCat("a scan sees key ", Show(item.key), " with ", Show(item.value));
      return false;
    }
    return true;
  });
  if (!answers.wrong.empty()) return;
  if (outcome == Outcome::kDataLoss) {
    ++answers.lost;
  } else if (outcome != Outcome::kOk || seen != content.size()) {
    answers.missing = absl::StrCat("a scan sees ", seen, " keys of ", content.size());
  }
}

// A new key directly behind `key`; of those of bytes the first eight are the same.
std::string KeyBehind(const EngineCase& engine_case, std::string key) {
  if (!engine_case.fixed64()) return key + '+';
  key.back() = '+';
  return key;
}

// What must be answered after more writes: each key that was, or whose write was acknowledged.
struct Expected {
  Content content;
  std::set<std::string> deleted;

  void Put(Engine& engine, const std::string& key, const std::string& value) {
    if (test::Put(engine, key, value).outcome != Outcome::kOk) return;
    content[key] = value;
    deleted.erase(key);
  }
  void Delete(Engine& engine, const std::string& key) {
    const WriteResult result = test::Delete(engine, key);
    if (result.outcome != Outcome::kOk || !result.found) return;
    content.erase(key);
    deleted.insert(key);
  }
};

// Puts, replaces and deletes all over the keys. What meets the damage may be refused.
void WorkOn(Engine& engine, const EngineCase& engine_case, const Content& content,
            Expected& expected) {
  const uint64_t step = content.size() / kWorkedOn + 1;
  uint64_t number = 0;
  for (const auto& [key, value] : content) {
    if (number++ % step != 0) continue;
    const uint64_t i = number / step;
    switch (i % 6) {
      case 1: expected.Put(engine, key, ValueFor(engine_case, i)); break;
      case 2: expected.Delete(engine, key); break;
      case 3: break;
      default: expected.Put(engine, KeyBehind(engine_case, key), ValueFor(engine_case, i));
    }
  }
  (void)engine.Check();
}

// What a scan sees until damage ends it lies in its range, in order, and is what was written last.
void AskByScan(Engine& engine, const ScanOptions& options, const Content& content,
               Answers& answers) {
  std::string last;
  uint64_t seen = 0;
  const auto in_range = [&](std::string_view key) {
    return key >= options.start && (!options.end || key < *options.end);
  };
  const Outcome outcome = engine.Scan(options, [&](const ScanItem& item) {
    const auto known = content.find(std::string(item.key));
    if (known != content.end()) ++seen;
    const bool in_order = last.empty() || (options.reverse ? item.key < last : item.key > last);
    if (!in_order || !in_range(item.key) ||
        (known != content.end() && known->second != item.value)) {
      answers.wrong =
          absl::StrCat("after more writes a scan from ", Show(options.start), " sees ",
                       Show(item.key), " with ", Show(item.value), " behind ", Show(last));
      return false;
    }
    last = item.key;
    return true;
  });
  const auto expected = std::count_if(content.begin(), content.end(),
                                      [&](const auto& pair) { return in_range(pair.first); });
  if (outcome == Outcome::kOk && answers.wrong.empty() && seen != static_cast<uint64_t>(expected)) {
    answers.missing = absl::StrCat("after more writes a scan sees ", seen, " keys of ", expected);
  }
}

// The damage must not have spread to keys that were written beside it.
void AskAfterwards(Engine& engine, const Expected& expected, Answers& answers) {
  for (const auto& [key, value] : expected.content) {
    const ReadResult read = Get(engine, key);
    if (read.outcome != Outcome::kOk || !read.found) {
      answers.missing = absl::StrCat("after more writes key ", Show(key), " is ",
                                     read.outcome == Outcome::kDataLoss ? "DATA_LOSS" : "missing");
    } else if (read.value != value) {
      answers.wrong = absl::StrCat("after more writes key ", Show(key), " has ", Show(read.value),
                                   " instead of ", Show(value));
    }
  }
  for (const std::string& key : expected.deleted) {
    if (!Get(engine, key).found) continue;
    answers.wrong = absl::StrCat("key ", Show(key), " is there again after its delete");
  }
  if (expected.content.empty()) return;
  const auto part = [&](size_t of_three) {
    auto at = expected.content.begin();
    std::advance(at, expected.content.size() * of_three / 3);
    return std::string_view(at->first);
  };
  AskByScan(engine, {.reverse = true}, expected.content, answers);
  AskByScan(engine, {.start = part(1), .end = part(2)}, expected.content, answers);
}

}  // namespace

bool NamesAPlace(const std::string& message) {
  return std::any_of(message.begin(), message.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Content Furnish(Engine& engine, const EngineCase& engine_case, uint64_t puts, uint64_t fresh) {
  Content content;
  const auto put = [&](uint64_t number, uint64_t value) {
    const std::string key = KeyOf(engine_case, number);
    content[key] = ValueFor(engine_case, value);
    if (Put(engine, key, content[key]).outcome != Outcome::kOk) {
      throw std::runtime_error("a put into a new pool failed");
    }
  };
  const auto forget = [&](uint64_t number) {
    const std::string key = KeyOf(engine_case, number);
    if (Delete(engine, key).found) content.erase(key);
  };
  Random random("furnish");
  for (uint64_t i = 0; i < puts; ++i) {
    put(MixBits(i) % puts, i);
    if (i % 7 == 3) forget(MixBits(random.Below(i)) % puts);
  }
  for (uint64_t i = 0; i < 4; ++i) {
    std::vector<std::string> keys;
    std::vector<std::string> values;
    for (uint64_t n = 0; n < 5; ++n) {
      keys.push_back(KeyOf(engine_case, 2 * puts + i * 5 + n));
      values.push_back(ValueFor(engine_case, i * 5 + n));
    }
    std::vector<WriteOp> ops;
    for (size_t n = 0; n < keys.size(); ++n) {
      content[keys[n]] = values[n];
      ops.push_back(PutOp(keys[n], values[n]));
    }
    (void)Atomic(engine, ops);
  }
  for (uint64_t i = 0; i < fresh; ++i) put(3 * puts + i, i);
  return content;
}

Verdict Interrogate(Engine& engine, const EngineCase& engine_case, const Content& content) {
  Answers answers;
  Expected expected{AskForKeys(engine, content, answers), {}};
  if (answers.wrong.empty()) AskForAll(engine, content, answers);
  const CheckReport report = engine.Check();
  WorkOn(engine, engine_case, content, expected);
  if (answers.wrong.empty() && answers.missing.empty()) AskAfterwards(engine, expected, answers);
  const std::string problem = FirstProblem(report);
  const bool wrong = !answers.wrong.empty();
  if (wrong || !answers.missing.empty()) {
    return {wrong ? Effect::kWrong : Effect::kMissing,
            absl::StrCat(wrong ? answers.wrong : answers.missing,
                         problem.empty() ? ", and Check finds nothing" : "; Check: ", problem)};
  }
  if (answers.lost == 0) {
    return {report.problem_count == 0 ? Effect::kNone : Effect::kNamed, problem};
  }
  const bool named = report.problem_count > 0 && NamesAPlace(problem);
  return {named ? Effect::kQuarantined : Effect::kUnnamed,
          named ? problem : "an answer is DATA_LOSS, and Check names no place"};
}

}  // namespace lodgekv::test
