// Pool files, through the door that a daemon uses: cut short at every page, before they are opened
// and while they are, and with flipped bits in what libpmemobj keeps for itself.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "absl/strings/str_format.h"
#include "index/pmem/temp_dir.h"
#include "index/store.h"
#include "tests/corruption/victim.h"
#include "tests/support/engine_calls.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{8} << 20;
constexpr uint64_t kPageBytes = 4096;
// libpmemobj's own header; its lanes and heap come behind.
constexpr uint64_t kPmemobjHeaderBytes = 4096;
constexpr uint64_t kFlips = 400;
constexpr uint64_t kPuts = 200;
constexpr uint64_t kFresh = 10;

class FileCorruption : public ::testing::TestWithParam<EngineCase> {
 protected:
  void SetUp() override {
    auto store = Store::Open(Options());
    ASSERT_TRUE(store.ok()) << store.status();
    content_ = Furnish((*store)->engine(), GetParam(), kPuts, kFresh);
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

TEST_P(FileCorruption, CutShortAtEveryPage) {
  const uint64_t pages = kPoolBytes / kPageBytes;
  // From the end, so that one file serves all.
  const auto verdicts = TryAll(pages, [&](size_t i) -> Verdict {
    const uint64_t bytes = (pages - 1 - i) * kPageBytes;
    if (truncate(pool_.c_str(), static_cast<off_t>(bytes)) != 0) return {Effect::kDied, "truncate"};
    // An empty file is no pool: it becomes one.
    return bytes == 0 ? Verdict{Effect::kRefused, ""} : Open();
  });
  for (size_t i = 0; i < pages; ++i) {
    ASSERT_EQ(EffectName(verdicts[i].effect), EffectName(Effect::kRefused))
        << pages - 1 - i << " pages of " << pages << ": " << verdicts[i].message;
  }
}

TEST_P(FileCorruption, FlippedBitsOfTheHeaderOfLibpmemobj) {
  const std::string copy = folder_ / "copy";
  std::filesystem::copy_file(pool_, copy);
  Random random("file flips");
  struct Bit {
    uint64_t byte;
    unsigned bit;
  };
  std::vector<Bit> bits(Scaled(kFlips));
  for (Bit& bit : bits) {
    bit = {random.Below(kPmemobjHeaderBytes), static_cast<unsigned>(random.Below(8))};
  }
  const auto flip = [&](const Bit& bit) {
    std::fstream file(pool_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(bit.byte));
    const char flipped = static_cast<char>(file.get() ^ (1 << bit.bit));
    file.seekp(static_cast<std::streamoff>(bit.byte));
    file.put(flipped);
  };
  const auto verdicts = TryAll(bits.size(), [&](size_t i) {
    flip(bits[i]);
    Verdict verdict = Open();
    // What is refused is left as it was.
    if (verdict.effect == Effect::kRefused) {
      flip(bits[i]);
    } else {
      std::filesystem::copy_file(copy, pool_, std::filesystem::copy_options::overwrite_existing);
    }
    return verdict;
  });
  std::array<uint64_t, kEffects> effects{};
  for (size_t i = 0; i < bits.size(); ++i) {
    ++effects[static_cast<size_t>(verdicts[i].effect)];
    EXPECT_LE(verdicts[i].effect, Effect::kNamed)
        << EffectName(verdicts[i].effect) << ": bit " << bits[i].bit << " of byte " << bits[i].byte
        << ": " << verdicts[i].message << "; " << SeedNote();
  }
  std::cout << absl::StreamFormat("%s, header of libpmemobj: %d refused, %d no effect\n",
                                  GetParam().Name(), effects[static_cast<size_t>(Effect::kRefused)],
                                  effects[static_cast<size_t>(Effect::kNone)]);
}

// What a process reads that it has mapped, and that is not there any more: as with a page that the
// medium cannot read, it ends, and says where.
TEST_P(FileCorruption, APageThatCannotBeReadEndsTheProcessByName) {
  const auto read_all = [&](uint64_t pages) {
    alarm(60);
    auto store = Store::Open(Options());
    if (!store.ok() || truncate(pool_.c_str(), static_cast<off_t>(pages * kPageBytes)) != 0) {
      _exit(9);
    }
    (void)(*store)->engine().Check();
    for (const auto& [key, value] : content_) (void)Get((*store)->engine(), key);
    _exit(0);
  };
  EXPECT_EXIT(read_all(1), ::testing::KilledBySignal(SIGBUS),
              "pool: " + pool_ + ": the page at offset [0-9]+ cannot be read or written");
}

INSTANTIATE_TEST_SUITE_P(Engines, FileCorruption, ::testing::ValuesIn([] {
                           std::vector<EngineCase> cases = PersistentCases();
                           std::erase_if(cases, [](const auto& one) { return one.small_nodes; });
                           return cases;
                         }()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
