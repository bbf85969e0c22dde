#include "index/node/codec.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv {
namespace {

using namespace std::string_literals;
using pmem::Offset;

std::string BigEndian(uint64_t word) {
  std::string text(8, '\0');
  StoreBigEndian(word, text.data());
  return text;
}

TEST(KeyWordTest, OrderIsTheByteOrder) {
  const std::string keys[] = {"",   "\0"s,      "\0\0"s,     "a",   "a\0"s,
                              "ab", "abcdefgh", "abcdefghi", "\xff"};
  for (const std::string& a : keys) {
    for (const std::string& b : keys) {
      if (a < b) {
        EXPECT_LE(KeyWord(a, 0), KeyWord(b, 0));
      }
    }
  }
  EXPECT_EQ(KeyWord("abcdefgh", 0), 0x6162636465666768u);
  EXPECT_EQ(KeyWord("abcdefghij", 2), 0x636465666768696au);
  EXPECT_EQ(KeyWord("abc", 1), 0x6263000000000000u);
  EXPECT_EQ(KeyWord("abc", 3), 0u);
  EXPECT_EQ(KeyWord("abc", 9), 0u);
}

// On the medium are slot hashes by the library's function.
TEST(SlotHashTest, OfAWordIsThatOfItsBytes) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t word = i < 64 ? uint64_t{1} << i : random();
    ASSERT_EQ(SlotHashOfWord(word), SlotHash(BigEndian(word))) << word;
  }
}

TEST(ShortestSeparatorTest, LiesBetween) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string a(1 + random() % 12, '\0');
    std::string b(1 + random() % 12, '\0');
    for (char& c : a) c = static_cast<char>(random() % 3);
    for (char& c : b) c = static_cast<char>(random() % 3);
    if (a == b) continue;
    if (b < a) std::swap(a, b);
    const std::string_view separator = ShortestSeparator(a, b);
    ASSERT_LT(a, separator);
    ASSERT_LE(separator, b);
    // No shorter separator exists.
    ASSERT_LE(separator.substr(0, separator.size() - 1), a);
  }
}

// --- fixed64 ---

TEST(Fixed64CodecTest, KeysArePairsWords) {
  const std::string text = BigEndian(0x0102030405060708);
  const auto key = Fixed64Codec::MakeKey(text);
  EXPECT_EQ(key.word, 0x0102030405060708u);
  EXPECT_EQ(key.hash, SlotHash(text));
  EXPECT_EQ(Fixed64Codec::HashOf({key.word, 77}), key.hash);
  EXPECT_TRUE(Fixed64Codec::MayMatch(key, {key.word, 77}));
  EXPECT_FALSE(Fixed64Codec::MayMatch(key, {key.word + 1, 77}));
  EXPECT_TRUE(Fixed64Codec::Less({1, 9}, {UINT64_MAX, 0}));
}

TEST(Fixed64CodecTest, FencesRoundTrip) {
  pmem::TestArena arena(1 << 16);
  auto pool = arena.Create();
  const Fixed64Codec codec(*pool, nullptr, false);
  DramArena dram;
  SeparatorTexts texts(dram);
  uint64_t out = 1;
  ASSERT_TRUE(codec.DecodeFence({}, texts, &out));
  EXPECT_EQ(out, Fixed64Codec::MinusInfinity());
  for (const uint64_t separator : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    const FenceWords fence = Fixed64Codec::EncodeFence(separator, 0);
    EXPECT_EQ(fence.kind(), FenceWords::kInline);
    ASSERT_TRUE(codec.DecodeFence(fence, texts, &out));
    EXPECT_EQ(out, separator);
  }
  EXPECT_FALSE(codec.DecodeFence({1, 0}, texts, &out));
  const FenceWords sound = FenceWords::Inline(77, 8);
  for (unsigned bit = 0; bit < 64; ++bit) {
    const uint64_t flip = uint64_t{1} << bit;
    EXPECT_FALSE(codec.DecodeFence({sound.word ^ flip, sound.meta}, texts, &out)) << bit;
    EXPECT_FALSE(codec.DecodeFence({sound.word, sound.meta ^ flip}, texts, &out)) << bit;
  }
  EXPECT_FALSE(codec.DecodeFence(FenceWords::Inline(1, 7), texts, &out));
  EXPECT_FALSE(codec.DecodeFence(FenceWords::Record(1, 4096), texts, &out));
  EXPECT_FALSE(codec.DecodeFence({1, 3}, texts, &out));
}

// --- bytes ---

class BytesCodecTest : public ::testing::TestWithParam<bool> {
 protected:
  Pair RecordPair(std::string_view key, std::string_view value) {
    StagedRecord record = StageRecord(*pool_, slab_, key, value, 0, pmem::ReservePolicy::kKeep);
    EXPECT_NE(record.offset, 0u);
    FinishRecord(*pool_, record, 1);
    return {KeyWord(key, 0), BytesCodec::RecordWord(KeyWord(key, 0), record.offset, SlotHash(key))};
  }
  // As the engine stores it: inline if possible.
  Pair AnyPair(std::string_view key, std::string_view value) {
    uint64_t word;
    if (codec_.InlineWord(key, value, &word)) return {KeyWord(key, 0), word};
    return RecordPair(key, value);
  }
  std::string TextOf(Pair pair) {
    char scratch[8];
    return std::string(codec_.KeyText(pair, scratch));
  }

  pmem::TestArena arena_{1 << 20};
  std::unique_ptr<pmem::Pool> pool_ = arena_.Create();
  pmem::RecordSlab slab_{*pool_};
  BytesCodec codec_{*pool_, &slab_, GetParam()};
  DramArena dram_;
  SeparatorTexts texts_{dram_};
};

INSTANTIATE_TEST_SUITE_P(WithAndWithoutInlinePairs, BytesCodecTest, ::testing::Bool());

TEST_P(BytesCodecTest, RecordWordsRoundTrip) {
  for (const Offset offset : {Offset{16}, Offset{4096 + 16}, (Offset{1} << 48) - 16}) {
    for (const uint16_t hash : {uint16_t{0}, uint16_t{1}, uint16_t{0xffff}}) {
      const uint64_t word = BytesCodec::RecordWord(3, offset, hash);
      EXPECT_TRUE(BytesCodec::IsRecord(word));
      EXPECT_FALSE(BytesCodec::IsSmall(word));
      EXPECT_EQ(BytesCodec::RecordOf(word), offset);
      EXPECT_EQ(codec_.HashOf({0, word}), hash);
    }
  }
  // docs/media_format.md shows these.
  EXPECT_EQ(BytesCodec::RecordWord(0x61, 0x12340, 0xabcd), 0xc00000002469579au);
  EXPECT_EQ(BytesCodec::RecordWord(0x63, 0x12340, 0xabcd), 0xc00000002469579bu);
}

TEST_P(BytesCodecTest, EveryFlippedBitOfAPairWithARecordIsFound) {
  const Pair pair = RecordPair("some longer key", "value");
  EXPECT_TRUE(codec_.PairIsSound(pair));
  for (unsigned bit = 0; bit < 64; ++bit) {
    EXPECT_FALSE(codec_.PairIsSound({pair.key ^ uint64_t{1} << bit, pair.value})) << bit;
    // A flipped tag gives another form, which a pool with inline pairs may hold.
    if (bit >= 61 && GetParam()) continue;
    EXPECT_FALSE(codec_.PairIsSound({pair.key, pair.value ^ uint64_t{1} << bit})) << bit;
  }
}

// A damaged key is not absent.
TEST_P(BytesCodecTest, APairWithADamagedRecordMatches) {
  const Pair pair = RecordPair("some longer key", "value");
  const auto key = BytesCodec::MakeKey("some longer key");
  const auto other = BytesCodec::MakeKey("some longer kez");
  EXPECT_TRUE(codec_.Matches(key, pair));
  EXPECT_FALSE(codec_.Matches(other, pair));
  EXPECT_TRUE(codec_.KeyFits(pair));
  *pool_->At<uint8_t>(BytesCodec::RecordOf(pair.value) + 26) ^= 1;
  EXPECT_TRUE(codec_.Matches(key, pair));
  EXPECT_FALSE(codec_.KeyFits(pair));
}

TEST_P(BytesCodecTest, ShortPairsLieInTheSlotOnlyWhereThePoolTakesThem) {
  for (size_t key_bytes = 0; key_bytes <= 9; ++key_bytes) {
    for (size_t value_bytes = 0; value_bytes <= 9; ++value_bytes) {
      for (const char fill : {'\0', 'x', '\xff'}) {
        const std::string key(key_bytes, fill);
        const std::string value(value_bytes, fill);
        const bool small = key_bytes <= 8 && value_bytes <= 6;
        const bool raw = key_bytes == 8 && value_bytes == 8 && fill != '\xff';
        uint64_t word = 0;
        ASSERT_EQ(codec_.InlineWord(key, value, &word), GetParam() && (small || raw));
        if (!GetParam() || (!small && !raw)) continue;
        char scratch[8];
        EXPECT_FALSE(BytesCodec::IsRecord(word));
        EXPECT_EQ(BytesCodec::IsSmall(word), !raw);
        EXPECT_EQ(BytesCodec::InlineValue(word, scratch), value);
        EXPECT_EQ(TextOf({KeyWord(key, 0), word}), key);
        EXPECT_EQ(codec_.HashOf({KeyWord(key, 0), word}), SlotHash(key));
      }
    }
  }
}

TEST_P(BytesCodecTest, DamageOfAShortPairIsFound) {
  if (!GetParam()) GTEST_SKIP() << "inline pairs only";
  uint64_t word = 0;
  ASSERT_TRUE(codec_.InlineWord("key", "value", &word));
  // docs/media_format.md shows this one.
  EXPECT_EQ(word, 0xe77a76616c756500u);
  const Pair pair{KeyWord("key", 0), word};
  EXPECT_TRUE(BytesCodec::InlineIsSound(pair));
  // Except the top bits, which would give another form.
  for (unsigned bit = 0; bit < 61; ++bit) {
    EXPECT_FALSE(BytesCodec::InlineIsSound({pair.key, pair.value ^ uint64_t{1} << bit})) << bit;
  }
  for (unsigned a = 0; a < 61; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      const uint64_t flips = uint64_t{1} << a | uint64_t{1} << b;
      EXPECT_FALSE(BytesCodec::InlineIsSound({pair.key, pair.value ^ flips})) << a << " " << b;
    }
  }
  // Key bytes after the key's length.
  for (unsigned bit = 0; bit < 40; ++bit) {
    EXPECT_FALSE(BytesCodec::InlineIsSound({pair.key ^ uint64_t{1} << bit, pair.value})) << bit;
  }
  for (const auto& [key, value] : {std::pair{"", ""}, {"12345678", "123456"}, {"k", "\0"}}) {
    ASSERT_TRUE(codec_.InlineWord(key, value, &word));
    EXPECT_TRUE(BytesCodec::InlineIsSound({KeyWord(key, 0), word}));
  }
}

TEST_P(BytesCodecTest, ARawValuesFirstByteTellsItFromTheOtherForms) {
  if (!GetParam()) GTEST_SKIP() << "inline pairs only";
  for (unsigned first = 0; first < 256; ++first) {
    std::string value = "01234567";
    value[0] = static_cast<char>(first);
    uint64_t word;
    ASSERT_EQ(codec_.InlineWord("8 bytes!", value, &word), first < 0xC0) << first;
    if (first >= 0xC0) continue;
    EXPECT_FALSE(BytesCodec::IsRecord(word) || BytesCodec::IsSmall(word)) << first;
  }
}

const std::vector<std::string>& Keys() {
  static const std::vector<std::string> keys = {"\0"s,
                                                "\0\0"s,
                                                "a",
                                                "a\0"s,
                                                "aaaaaaa",
                                                "aaaaaaaa",
                                                "aaaaaaaa\0"s,
                                                "aaaaaaaaa",
                                                "aaaaaaaab",
                                                "aaaaaaab",
                                                "user:0001",
                                                "user:0002",
                                                std::string(100, 'x'),
                                                std::string(100, 'x') + "y",
                                                "\xff\xff\xff\xff\xff\xff\xff\xff"};
  return keys;
}

TEST_P(BytesCodecTest, ComparesByTheWholeKey) {
  for (const std::string& a : Keys()) {
    const Pair pair_a = AnyPair(a, "v");
    EXPECT_EQ(TextOf(pair_a), a);
    for (const std::string& b : Keys()) {
      // Inline in one place, a record in the other.
      const Pair pair_b = AnyPair(b, b.size() % 2 == 0 ? "v" : "a longer value");
      EXPECT_EQ(codec_.SameKey(pair_a, pair_b), a == b);
      EXPECT_EQ(codec_.Less(pair_a, pair_b), a < b);
      const auto key = BytesCodec::MakeKey(b);
      EXPECT_EQ(codec_.MayMatch(key, pair_a) && codec_.Matches(key, pair_a), a == b);
    }
  }
}

TEST_P(BytesCodecTest, WordsBehindAPrefix) {
  const Pair pair = AnyPair("user:0001", "v");
  EXPECT_EQ(codec_.WordOf(pair, 0), KeyWord("user:000", 0));
  EXPECT_EQ(codec_.WordOf(pair, 5), KeyWord("0001", 0));
  const auto key = BytesCodec::MakeKey("user:0001");
  EXPECT_EQ(BytesCodec::WordOf(key, 5), KeyWord("0001", 0));
  EXPECT_EQ(BytesCodec::WordOf(BytesCodec::Separator{texts_.New("user:0001")}, 5),
            KeyWord("0001", 0));
}

TEST_P(BytesCodecTest, RangesAreHalfOpen) {
  const auto* low = texts_.New("b");
  const auto* high = texts_.New("c");
  EXPECT_FALSE(codec_.KeyInRange(AnyPair("azzzzzzzzzz", "v"), low, true, high));
  EXPECT_TRUE(codec_.KeyInRange(AnyPair("b", "v"), low, true, high));
  EXPECT_TRUE(codec_.KeyInRange(AnyPair("bzzzzzzzzzz", "v"), low, true, high));
  EXPECT_FALSE(codec_.KeyInRange(AnyPair("c", "v"), low, true, high));
  EXPECT_TRUE(codec_.KeyInRange(AnyPair("c", "v"), low, false, nullptr));
}

TEST_P(BytesCodecTest, SeparatorsLieBetween) {
  for (const std::string& a : Keys()) {
    for (const std::string& b : Keys()) {
      if (a >= b) continue;
      const auto* separator = codec_.Between(AnyPair(a, "v"), AnyPair(b, "v"), texts_);
      EXPECT_LT(a, separator->view());
      EXPECT_LE(separator->view(), b);
      EXPECT_LT(BytesCodec::Compare(BytesCodec::MinusInfinity(), separator), 0);
      EXPECT_GT(BytesCodec::CompareToKey(separator, BytesCodec::MakeKey(a)), 0);
      EXPECT_LE(BytesCodec::CompareToKey(separator, BytesCodec::MakeKey(b)), 0);
    }
  }
}

TEST_P(BytesCodecTest, FencesRoundTrip) {
  BytesCodec::Separator out;
  ASSERT_TRUE(
      codec_.DecodeFence(BytesCodec::EncodeFence(BytesCodec::MinusInfinity(), 0), texts_, &out));
  EXPECT_TRUE(out->view().empty());
  for (const std::string& text : Keys()) {
    const auto* separator = texts_.New(text);
    Offset record = 0;
    const std::string_view long_text = BytesCodec::FenceText(separator);
    EXPECT_EQ(long_text.empty(), text.size() <= 8);
    if (!long_text.empty()) record = BytesCodec::RecordOf(RecordPair(long_text, "").value);
    const FenceWords fence = BytesCodec::EncodeFence(separator, record);
    EXPECT_EQ(fence.word, KeyWord(text, 0));
    ASSERT_TRUE(codec_.DecodeFence(fence, texts_, &out)) << text;
    EXPECT_EQ(out->view(), text);
  }
}

TEST_P(BytesCodecTest, RefusesWhatIsNoFence) {
  BytesCodec::Separator out;
  EXPECT_FALSE(codec_.DecodeFence({1, 0}, texts_, &out));
  EXPECT_FALSE(codec_.DecodeFence({0, 0x100}, texts_, &out));
  EXPECT_FALSE(codec_.DecodeFence(FenceWords::Inline(1, 0), texts_, &out));
  EXPECT_FALSE(codec_.DecodeFence(FenceWords::Inline(1, 9), texts_, &out));
  EXPECT_FALSE(codec_.DecodeFence({1, 3}, texts_, &out));
  EXPECT_FALSE(codec_.DecodeFence(FenceWords::Record(1, 16), texts_, &out));
  const Pair pair = RecordPair("some longer key", "");
  const Offset record = BytesCodec::RecordOf(pair.value);
  ASSERT_TRUE(codec_.DecodeFence(FenceWords::Record(pair.key, record), texts_, &out));
  *pool_->At<uint8_t>(record + 30) ^= 1;
  EXPECT_FALSE(codec_.DecodeFence(FenceWords::Record(pair.key, record), texts_, &out));
}

}  // namespace
}  // namespace lodgekv
