#include "tests/corruption/victim.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/pool_header.h"
#include "tests/support/engine_calls.h"
#include "tests/support/key_sets.h"
#include "tests/support/pool_identity.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kArenaBytes = uint64_t{512} << 10;
constexpr uint64_t kChunkBytes = uint64_t{8} << 10;
constexpr uint64_t kPuts = 240;
constexpr uint64_t kFreshPuts = 12;
constexpr uint64_t kLargeEvery = 60;
constexpr uint64_t kWorkAfterwards = 30;
constexpr uint64_t kNewKeys = 1'000'000;

void Must(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

template <class T>
T Take(absl::StatusOr<T> result) {
  Must(result.status());
  return *std::move(result);
}

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

pmem::Pool::ArenaOptions ArenaOf(std::span<std::byte> memory, bool verify_at_use = false) {
  pmem::Pool::ArenaOptions arena;
  arena.memory = memory;
  arena.chunk_bytes = kChunkBytes;
  arena.verify_at_use = verify_at_use;
  return arena;
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

void AskForKeys(Engine& engine, const Content& content, Answers& answers) {
  for (const auto& [key, value] : content) {
    const ReadResult read = Get(engine, key);
    if (read.outcome == Outcome::kDataLoss) {
      ++answers.lost;
    } else if (read.outcome != Outcome::kOk || !read.found) {
      answers.missing = absl::StrCat("key ", Show(key), " is not found");
    } else if (read.value != value) {
      answers.wrong =
          absl::StrCat("key ", Show(key), " has ", Show(read.value), " instead of ", Show(value));
    }
    if (!answers.wrong.empty()) return;
  }
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

// Only survival matters: operations on damaged data may be refused.
void WorkOn(Engine& engine, const EngineCase& engine_case, const Content& content) {
  auto key = content.begin();
  for (uint64_t i = 0; i < kWorkAfterwards; ++i) {
    (void)Put(engine, KeyOf(engine_case, kNewKeys + i), ValueFor(engine_case, i));
    if (key == content.end()) continue;
    (void)Put(engine, key->first, ValueFor(engine_case, i));
    if (++key == content.end()) continue;
    (void)Delete(engine, key->first);
    ++key;
  }
  (void)engine.Scan({}, [](const ScanItem&) { return true; });
  (void)engine.Check();
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
  AskForKeys(engine, content, answers);
  if (answers.wrong.empty()) AskForAll(engine, content, answers);
  const CheckReport report = engine.Check();
  WorkOn(engine, engine_case, content);
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

Victim::Victim(const EngineCase& engine_case, bool closed)
    : case_(engine_case), image_(kArenaBytes), copy_(kArenaBytes) {
  ArenaMemory memory(kArenaBytes);
  memory.FillWithGarbage(TestSeed());
  auto pool = Take(pmem::Pool::CreateArena(ArenaOf(memory.span()), IdentityOf(case_)));
  auto engine = Take(case_.engine->create(ContextOf(pool.get())));
  pool->MarkEngineCreated();
  content_ = Furnish(*engine, case_, kPuts, kFreshPuts);
  if (closed) {
    Must(engine->Close());
    engine.reset();
    Must(pool->Close(true));
    pool.reset();
  }
  std::memcpy(image_.span().data(), memory.span().data(), kArenaBytes);
  FindRegions();
}

EngineContext Victim::ContextOf(pmem::Pool* pool) const {
  EngineContext context;
  context.pool = pool;
  context.key_format = case_.key_format;
  context.inline_pairs = case_.inline_pairs;
  context.options = OptionsFor(case_);
  return context;
}

void Victim::FindRegions() {
  using pmem::media::Header;
  const auto add = [this](std::string name, uint64_t begin, uint64_t end) {
    regions_.push_back({std::move(name), begin, end});
  };
  add("identity", 0, offsetof(Header, state_word));
  add("state word and padding", offsetof(Header, state_word), offsetof(Header, slots));
  add("state slots", offsetof(Header, slots), offsetof(Header, engine_area));
  add("engine area", offsetof(Header, engine_area), sizeof(Header));
  std::memcpy(copy_.span().data(), image_.span().data(), bytes());
  const auto pool = Take(pmem::Pool::OpenArena(ArenaOf(copy_.span())));
  const std::vector<pmem::Chunk> chunks = pool->Chunks();
  add("chunk table", sizeof(Header),
      pmem::PoolHeader::BytesFor(kArenaBytes / (kChunkBytes + sizeof(pmem::media::ChunkRow))));
  const char* const names[] = {"", "nodes", "logs", "records"};
  for (const pmem::Chunk& chunk : chunks) {
    regions_.push_back({names[static_cast<size_t>(chunk.use)], chunk.begin,
                        chunk.begin + chunk.bytes, chunk.unit_bytes, chunk.use});
  }
  for (const pmem::Offset offset : pool->LargeObjects()) {
    add("large records", offset, offset + pool->LargeBytes(offset));
  }
}

const Region& Victim::RegionOf(uint64_t offset) const {
  static const Region kElsewhere{.name = "free space"};
  for (const Region& region : regions_) {
    if (offset >= region.begin && offset < region.end) return region;
  }
  return kElsewhere;
}

Verdict Victim::Flip(uint64_t offset, unsigned bit) const {
  std::memcpy(copy_.span().data(), image_.span().data(), bytes());
  copy_.span()[offset] ^= std::byte{1} << bit;
  return Try(copy_.span());
}

Verdict Victim::Truncate(uint64_t bytes) const {
  std::memcpy(copy_.span().data(), image_.span().data(), bytes);
  return Try(copy_.span().first(bytes));
}

Verdict Victim::Try(std::span<std::byte> memory) const {
  const auto refused = [](const absl::Status& status) -> Verdict {
    const std::string message(status.message());
    return {NamesAPlace(message) ? Effect::kRefused : Effect::kUnnamed, message};
  };
  auto pool = pmem::Pool::OpenArena(ArenaOf(memory, case_.engine->verifies_at_use));
  if (!pool.ok()) return refused(pool.status());
  const pmem::PoolIdentity& identity = (*pool)->identity();
  if (identity.engine != case_.engine->name) return {Effect::kWrong, "the engine's name"};
  if (!(*pool)->engine_created()) return {Effect::kWrong, "the pool counts as having no engine"};
  RecoveryReport report;
  auto engine = case_.engine->recover(ContextOf(pool->get()), &report);
  if (!engine.ok()) return refused(engine.status());
  return Interrogate(**engine, case_, content_);
}

}  // namespace lodgekv::test
