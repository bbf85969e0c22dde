// Pool files, opened as a daemon does: truncated at every page, before and while they are open,
// with unreadable pages, and with flipped bits in libpmemobj's own metadata.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "index/pmem/pool.h"
#include "index/pmem/testing/temp_dir.h"
#include "index/store.h"
#include "tests/corruption/victim.h"
#include "tests/support/engine_calls.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{8} << 20;
constexpr uint64_t kPageBytes = 4096;
// libpmemobj's own header; its lanes and heap follow.
constexpr uint64_t kPmemobjHeaderBytes = 4096;
constexpr uint64_t kFlips = 400;
// Then its description of the pool, its lanes, the header of its heap and the table of the only
// zone; and the header of the first object.
constexpr uint64_t kFirstLane = 8192;
constexpr uint64_t kHeap = 3153920;
constexpr uint64_t kFirstObject = 3679232 + 64;
constexpr uint64_t kMetadataFlips = 600;
constexpr uint64_t kOtherPages = 20;
constexpr uint64_t kNeededPages = 10;
// Of TLBtree, which reads no record, there are few.
constexpr uint64_t kNeededByRecovery = 5;
constexpr uint64_t kPuts = 200;
constexpr uint64_t kPutsInPlace = 3'000;  // of pairs without records, which take little space
constexpr uint64_t kFresh = 10;

class FileCorruptionTest : public ::testing::TestWithParam<EngineCase> {
 protected:
  void SetUp() override {
    auto store = Store::Open(Options());
    ASSERT_TRUE(store.ok()) << store.status();
    const uint64_t puts = GetParam().fixed64() ? kPutsInPlace : kPuts;
    content_ = Furnish((*store)->engine(), GetParam(), puts, kFresh);
    ASSERT_TRUE((*store)->Close().ok());
  }

  StoreOptions Options() const {
    StoreOptions options;
    options.engine = std::string(GetParam().engine->name);
    options.pool_path = pool_;
    options.pool_size_bytes = kPoolBytes;
    options.key_format = GetParam().key_format;
    options.inline_pairs = GetParam().inline_pairs;
    options.allow_volatile_medium = true;
    options.recovery_threads = 1;
    options.end_at_damaged_metadata = true;
    const OptionValues values = OptionsFor(GetParam());
    for (const auto& [name, value] : values.values()) {
      options.engine_options[name] = std::to_string(value);
    }
    return options;
  }

  Verdict Open() const {
    auto store = Store::Open(Options());
    if (store.ok()) return Interrogate((*store)->engine(), GetParam(), content_);
    const std::string message(store.status().message());
    const bool named = message.find(pool_) != std::string::npos;
    return {named ? Effect::kRefused : Effect::kUnnamed, message};
  }

  const pmem::TempDir folder_;
  const std::string pool_ = folder_ / "pool";
  Content content_;
};

TEST_P(FileCorruptionTest, CutShortAtEveryPage) {
  const uint64_t pages = kPoolBytes / kPageBytes;
  // From the end, so that one file suffices for all.
  const auto verdicts = TryAll(pages, [&](size_t i) -> Verdict {
    const uint64_t bytes = (pages - 1 - i) * kPageBytes;
    if (truncate(pool_.c_str(), static_cast<off_t>(bytes)) != 0) return {Effect::kDied, "truncate"};
    // An empty file is not a pool: it becomes one.
    return bytes == 0 ? Verdict{Effect::kRefused, ""} : Open();
  });
  for (size_t i = 0; i < pages; ++i) {
    ASSERT_EQ(EffectName(verdicts[i].effect), EffectName(Effect::kRefused))
        << pages - 1 - i << " pages of " << pages << ": " << verdicts[i].message;
  }
}

struct Bit {
  uint64_t byte;
  unsigned bit;
};

class FlippedBitsTest : public FileCorruptionTest {
 protected:
  void SetUp() override {
    FileCorruptionTest::SetUp();
    std::filesystem::copy_file(pool_, copy_);
  }

  // One after the other. A pool that is refused with an error must be unchanged.
  std::vector<Verdict> TryEach(const std::vector<Bit>& bits) const {
    return TryAll(bits.size(), [&](size_t i) {
      if (i == 0 || !untouched_) Restore();
      untouched_ = false;
      Flip(bits[i]);
      Verdict verdict = Open();
      if (verdict.effect == Effect::kRefused) {
        Flip(bits[i]);
        untouched_ = true;
      }
      return verdict;
    });
  }

  // No effect worse than listed, and no signal.
  void Check(const std::vector<Bit>& bits, const std::vector<Verdict>& verdicts,
             const char* where) const {
    std::array<uint64_t, kEffects> effects{};
    for (size_t i = 0; i < bits.size(); ++i) {
      ++effects[static_cast<size_t>(verdicts[i].effect)];
      EXPECT_LE(verdicts[i].effect, Effect::kNamed)
          << EffectName(verdicts[i].effect) << ": bit " << bits[i].bit << " of byte "
          << bits[i].byte << ": " << verdicts[i].message << "; " << SeedNote();
    }
    std::cout << absl::StreamFormat("%s, %s: %d refused, %d no effect\n", GetParam().Name(), where,
                                    effects[static_cast<size_t>(Effect::kRefused)],
                                    effects[static_cast<size_t>(Effect::kNone)]);
  }

 private:
  void Restore() const {
    std::filesystem::copy_file(copy_, pool_, std::filesystem::copy_options::overwrite_existing);
  }
  void Flip(const Bit& bit) const {
    std::fstream file(pool_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(bit.byte));
    const char flipped = static_cast<char>(file.get() ^ (1 << bit.bit));
    file.seekp(static_cast<std::streamoff>(bit.byte));
    file.put(flipped);
  }

 protected:
  const std::string copy_ = folder_ / "copy";

 private:
  mutable bool untouched_ = false;  // of the process that tries
};

TEST_P(FlippedBitsTest, OfTheHeaderOfLibpmemobj) {
  Random random("file flips");
  std::vector<Bit> bits(Scaled(kFlips));
  for (Bit& bit : bits) {
    bit = {random.Below(kPmemobjHeaderBytes), static_cast<unsigned>(random.Below(8))};
  }
  Check(bits, TryEach(bits), "header of libpmemobj");
}

// A third each in its description of the pool, the lanes and the heap; half of them in nonzero
// bytes, since most are zero.
TEST_P(FlippedBitsTest, OfTheLanesAndTheHeapOfLibpmemobj) {
  constexpr std::array kPlaces{kPmemobjHeaderBytes, kFirstLane, kHeap, kFirstObject};
  std::ifstream file(copy_, std::ios::binary);
  std::string begin(kFirstObject, '\0');
  file.read(begin.data(), kFirstObject);
  Random random("lane and heap flips");
  std::vector<Bit> bits;
  for (size_t place = 0; place + 1 < kPlaces.size(); ++place) {
    std::vector<uint64_t> filled;
    for (uint64_t at = kPlaces[place]; at < kPlaces[place + 1]; ++at) {
      if (begin[at] != 0) filled.push_back(at);
    }
    for (uint64_t n = 0; n < Scaled(kMetadataFlips) / (kPlaces.size() - 1); ++n) {
      const uint64_t anywhere = kPlaces[place] + random.Below(kPlaces[place + 1] - kPlaces[place]);
      const bool on_filled = n % 2 == 0 && !filled.empty();
      bits.push_back({on_filled ? filled[random.Below(filled.size())] : anywhere,
                      static_cast<unsigned>(random.Below(8))});
    }
  }
  const std::vector<Verdict> verdicts = TryEach(bits);
  Check(bits, verdicts, "lanes and heap of libpmemobj");
  const auto ended = std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) {
    return verdict.message.find("libpmemobj's own part") != std::string::npos;
  });
  std::cout << "of them ended by the guard: " << ended << "\n";
}

// Where the pool's file is mapped in this process.
char* MappingOf(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(path)) return reinterpret_cast<char*>(std::stoull(line, nullptr, 16));
  }
  return nullptr;
}

// Replaces a page of the pool by one that cannot be read: a page of an empty file.
bool SpoilPage(char* base, uint64_t page) {
  const int fd = memfd_create("bad page", MFD_CLOEXEC);
  char* at = base + page * kPageBytes;
  const bool done =
      mmap(at, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at;
  close(fd);
  return done;
}

class BadPagesTest : public FileCorruptionTest {
 protected:
  void SetUp() override {
    FileCorruptionTest::SetUp();
    std::filesystem::copy_file(pool_, undamaged_);
  }

  // Restores the pool, so that trials are independent.
  void Restore() const {
    std::filesystem::copy_file(undamaged_, pool_,
                               std::filesystem::copy_options::overwrite_existing);
  }

  pmem::PoolOptions PoolOptions() const {
    pmem::PoolOptions options;
    options.path = pool_;
    options.allow_volatile_medium = true;
    return options;
  }

  // Offsets at which the pool holds our data, not libpmemobj's.
  std::vector<std::pair<uint64_t, uint64_t>> RangesInUse() const {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    const auto opened = pmem::Pool::Open(PoolOptions());
    if (!opened.ok()) return ranges;
    const pmem::Pool& pool = **opened;
    const uint64_t area = pool.OffsetOf(pool.engine_area().data());
    ranges.emplace_back(area, area + 1);
    for (const pmem::Chunk& chunk : pool.Chunks()) {
      ranges.emplace_back(chunk.begin, chunk.begin + chunk.bytes);
    }
    for (const pmem::Offset offset : pool.LargeObjects()) {
      ranges.emplace_back(offset, offset + pool.LargeBytes(offset));
    }
    return ranges;
  }

  // All pages that hold our data; libpmemobj's first, which it reads until it has closed the pool;
  // and some others.
  std::vector<uint64_t> DrawPages() const {
    std::set<uint64_t> pages{0};
    std::ifstream file(undamaged_, std::ios::binary);
    std::string page(kPageBytes, '\0');
    for (const auto& [begin, end] : RangesInUse()) {
      for (uint64_t at = begin / kPageBytes; at * kPageBytes < end; ++at) {
        file.seekg(static_cast<std::streamoff>(at * kPageBytes));
        file.read(page.data(), kPageBytes);
        if (page.find_first_not_of('\0') != std::string::npos) pages.insert(at);
      }
    }
    Random random("bad pages");
    for (uint64_t n = Scaled(kOtherPages); n > 0; --n) {
      pages.insert(random.Below(kPoolBytes / kPageBytes));
    }
    return {pages.begin(), pages.end()};
  }

  // Either nobody needs the page, or the process ends in the defined way and names it.
  void Check(const std::vector<uint64_t>& pages, const std::vector<Verdict>& verdicts,
             const char* when, uint64_t needed = kNeededPages) const {
    uint64_t refused = 0;
    for (size_t i = 0; i < pages.size(); ++i) {
      const Verdict& verdict = verdicts[i];
      if (verdict.effect == Effect::kNone) continue;
      ++refused;
      EXPECT_EQ(EffectName(verdict.effect), EffectName(Effect::kRefused))
          << "page " << pages[i] << ": " << verdict.message << "; " << SeedNote();
      EXPECT_THAT(verdict.message, ::testing::StartsWith("lodgekv pool: " + pool_ + ": the page"));
      uint64_t offset = 0;
      (void)std::sscanf(verdict.message.c_str() + verdict.message.find(" at offset "),
                        " at offset %" SCNu64, &offset);
      EXPECT_EQ(offset / kPageBytes, pages[i]) << verdict.message;
    }
    EXPECT_GE(refused, needed) << SeedNote();
    std::cout << absl::StreamFormat("%s, a bad page met %s: %d refused, %d no effect\n",
                                    GetParam().Name(), when, refused, pages.size() - refused);
  }

  const std::string undamaged_ = folder_ / "undamaged";
};

TEST_P(BadPagesTest, OfAServingPoolEndTheProcessByName) {
  const std::vector<uint64_t> pages = DrawPages();
  const auto verdicts = TryAll(pages.size(), [&](size_t i) -> Verdict {
    Restore();
    auto store = Store::Open(Options());
    if (!store.ok()) return {Effect::kDied, store.status().ToString()};
    char* base = MappingOf(pool_);
    if (base == nullptr || !SpoilPage(base, pages[i])) return {Effect::kDied, "not mapped"};
    return Interrogate((*store)->engine(), GetParam(), content_);
  });
  Check(pages, verdicts, "in service");
}

// Recovery does not skip the page, so every start hits it again.
TEST_P(BadPagesTest, MetByRecoveryEndTheProcessByName) {
  const std::vector<uint64_t> pages = DrawPages();
  const auto verdicts = TryAll(pages.size(), [&](size_t i) -> Verdict {
    Restore();
    auto pool = pmem::Pool::Open(PoolOptions());
    if (!pool.ok()) return {Effect::kDied, pool.status().ToString()};
    if (!SpoilPage((*pool)->base(), pages[i])) return {Effect::kDied, "not mapped"};
    EngineContext context;
    context.pool = pool->get();
    context.key_format = GetParam().key_format;
    context.inline_pairs = GetParam().inline_pairs;
    context.options = OptionsFor(GetParam());
    RecoveryReport report;
    const auto engine = GetParam().engine->recover(context, &report);
    if (!engine.ok()) return {Effect::kDied, engine.status().ToString()};
    return {};
  });
  Check(pages, verdicts, "by recovery", kNeededByRecovery);
}

// As when somebody truncates the file of a running daemon.
TEST_P(BadPagesTest, AFileThatIsCutShortEndsTheProcessByName) {
  const auto verdicts = TryAll(1, [&](size_t) -> Verdict {
    auto store = Store::Open(Options());
    if (!store.ok() || truncate(pool_.c_str(), kPageBytes) != 0) return {Effect::kDied, "truncate"};
    return Interrogate((*store)->engine(), GetParam(), content_);
  });
  EXPECT_EQ(EffectName(verdicts[0].effect), EffectName(Effect::kRefused)) << verdicts[0].message;
  EXPECT_THAT(verdicts[0].message, ::testing::HasSubstr(pool_));
  const auto again = TryAll(1, [&](size_t) { return Open(); });
  EXPECT_EQ(EffectName(again[0].effect), EffectName(Effect::kRefused)) << again[0].message;
  EXPECT_THAT(again[0].message, ::testing::HasSubstr("truncated"));
}

std::vector<EngineCase> Cases() {
  std::vector<EngineCase> cases = PersistentCases();
  std::erase_if(cases, [](const auto& one) { return one.small_nodes; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Engines, FileCorruptionTest, ::testing::ValuesIn(Cases()),
                         EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, FlippedBitsTest, ::testing::ValuesIn(Cases()), EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, BadPagesTest, ::testing::ValuesIn(Cases()), EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
