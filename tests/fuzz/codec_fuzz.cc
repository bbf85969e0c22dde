// Both codecs: keys, pairs, separators and fences keep the order of byte strings and survive a
// round trip; words that no codec writes are refused.
#include <algorithm>
#include <memory>
#include <string>

#include "index/node/codec.h"
#include "tests/fuzz/arena_pool.h"
#include "tests/fuzz/fuzz_target.h"

namespace lodgekv {
namespace {

constexpr uint64_t kRecordBytes = 1024;
constexpr int kExecutionsOfAnArena = 1 << 10;  // separators are freed all together

int Sign(int number) { return (number > 0) - (number < 0); }

struct World {
  fuzz::ArenaPool memory{size_t{1} << 17, 8192};
  pmem::Pool& pool = memory.pool();
  pmem::RecordSlab slab{pool};
  BytesCodec inline_codec{pool, &slab, true};
  BytesCodec record_codec{pool, &slab, false};
  Fixed64Codec fixed_codec{pool, nullptr, false};
  pmem::Offset spaces[2] = {slab.Allocate(kRecordBytes, pmem::ReservePolicy::kKeep),
                            slab.Allocate(kRecordBytes, pmem::ReservePolicy::kKeep)};
  std::unique_ptr<DramArena> dram;
  std::unique_ptr<SeparatorTexts> texts;
  int executions = 0;

  SeparatorTexts& Texts() {
    if (executions++ % kExecutionsOfAnArena == 0) {
      dram = std::make_unique<DramArena>();
      texts = std::make_unique<SeparatorTexts>(*dram);
    }
    return *texts;
  }
};

World& TheWorld() {
  static auto* world = new World;
  return *world;
}

Pair MakeRecordPair(World& world, int number, std::string_view key, std::string_view value) {
  StagedRecord record = StageRecordAt(world.pool, world.slab, world.spaces[number], key, value, 0);
  FinishRecord(world.pool, record, 7);
  const uint64_t word = KeyWord(key, 0);
  return {word, BytesCodec::RecordWord(word, record.offset, SlotHash(key))};
}

// Inline if the pool allows it, otherwise a record.
Pair MakePair(World& world, const BytesCodec& codec, int number, std::string_view key,
              std::string_view value) {
  uint64_t word = 0;
  if (!codec.InlineWord(key, value, &word)) return MakeRecordPair(world, number, key, value);
  char scratch[8];
  FUZZ_REQUIRE(BytesCodec::InlineValue(word, scratch) == value, value);
  FUZZ_REQUIRE(!BytesCodec::IsRecord(word), key);
  return {KeyWord(key, 0), word};
}

void CheckPair(const BytesCodec& codec, Pair pair, std::string_view key) {
  char scratch[8];
  FUZZ_REQUIRE(codec.PairIsSound(pair) && codec.KeyFits(pair), key);
  FUZZ_REQUIRE(codec.KeyText(pair, scratch) == key, key);
  FUZZ_REQUIRE(codec.HashOf(pair) == SlotHash(key), key);
  const BytesCodec::Key sought = BytesCodec::MakeKey(key);
  FUZZ_REQUIRE(codec.MayMatch(sought, pair) && codec.Matches(sought, pair), key);
}

// The planted bug: a separator ends with the word that it begins with.
BytesCodec::Separator Between(const BytesCodec& codec, Pair left, Pair right,
                              SeparatorTexts& texts) {
  const BytesCodec::Separator separator = codec.Between(left, right, texts);
  if (!fuzz::BugIsPlanted()) return separator;
  return texts.New(separator->view().substr(0, 8));
}

// A fence decodes to its separator, and every single flipped bit is detected.
void CheckFence(World& world, const BytesCodec& codec, BytesCodec::Separator separator,
                uint8_t flip) {
  const std::string_view text = separator->view();
  pmem::Offset record = 0;
  if (const std::string_view kept = BytesCodec::FenceText(separator); !kept.empty()) {
    record = BytesCodec::RecordOf(MakeRecordPair(world, 0, kept, {}).value);
  }
  FenceWords fence = BytesCodec::EncodeFence(separator, record);
  BytesCodec::Separator again = nullptr;
  FUZZ_REQUIRE(codec.DecodeFence(fence, *world.texts, &again), text);
  FUZZ_REQUIRE(again->view() == text, text);
  (flip < 64 ? fence.word : fence.meta) ^= uint64_t{1} << flip % 64;
  FUZZ_REQUIRE(!codec.DecodeFence(fence, *world.texts, &again), text);
}

// `a` is below `b`.
void CheckOrder(World& world, const BytesCodec& codec, Pair a, Pair b, std::string_view key_a,
                std::string_view key_b, uint8_t flip) {
  FUZZ_REQUIRE(a.key <= b.key, key_a);
  FUZZ_REQUIRE(codec.Less(a, b) && !codec.Less(b, a) && !codec.SameKey(a, b), key_a);
  const BytesCodec::Key sought = BytesCodec::MakeKey(key_b);
  FUZZ_REQUIRE(!codec.MayMatch(sought, a) || !codec.Matches(sought, a), key_a);
  const BytesCodec::Separator separator = Between(codec, a, b, *world.texts);
  const std::string_view text = separator->view();
  FUZZ_REQUIRE(key_a < text && text <= key_b, text);
  FUZZ_REQUIRE(codec.KeyInRange(b, separator, false, nullptr), text);
  FUZZ_REQUIRE(codec.KeyInRange(a, BytesCodec::MinusInfinity(), true, separator), text);
  FUZZ_REQUIRE(!codec.KeyInRange(a, separator, false, nullptr), text);
  FUZZ_REQUIRE(Sign(BytesCodec::CompareToKey(separator, BytesCodec::MakeKey(key_a))) > 0, text);
  FUZZ_REQUIRE(Sign(BytesCodec::CompareToKey(separator, sought)) <= 0, text);
  CheckFence(world, codec, separator, flip % 128);
}

void CheckBytesCodec(World& world, const BytesCodec& codec, fuzz::InputReader input) {
  const uint8_t flip = input.Byte();
  std::string key_a(input.Text());
  std::string key_b(input.Text());
  const std::string_view value_a = input.Text();
  const std::string_view value_b = input.Text();
  if (key_a.empty() || key_b.empty()) return;
  if (key_b < key_a) std::swap(key_a, key_b);
  const Pair a = MakePair(world, codec, 0, key_a, value_a);
  const Pair b = MakePair(world, codec, 1, key_b, value_b);
  CheckPair(codec, a, key_a);
  CheckPair(codec, b, key_b);
  if (key_a == key_b) {
    FUZZ_REQUIRE(codec.SameKey(a, b) && !codec.Less(a, b) && !codec.Less(b, a), key_a);
  } else {
    CheckOrder(world, codec, a, b, key_a, key_b, flip);
  }
}

// Two words that may be in a slot: exactly what the codec writes is sound.
void CheckSlot(World& world, Pair pair) {
  const BytesCodec& codec = world.inline_codec;
  if (BytesCodec::IsRecord(pair.value) || !codec.PairIsSound(pair)) return;
  char key[8];
  char value[8];
  uint64_t word = 0;
  const std::string_view key_text = codec.KeyText(pair, key);
  FUZZ_REQUIRE(codec.InlineWord(key_text, BytesCodec::InlineValue(pair.value, value), &word),
               key_text);
  FUZZ_REQUIRE(word == pair.value && KeyWord(key_text, 0) == pair.key, key_text);
  FUZZ_REQUIRE(!world.record_codec.PairIsSound(pair), key_text);
}

void CheckFixed(World& world, uint64_t a, uint64_t b) {
  const Fixed64Codec& codec = world.fixed_codec;
  char text_a[8];
  char text_b[8];
  StoreBigEndian(a, text_a);
  StoreBigEndian(b, text_b);
  const std::string_view view_a(text_a, 8);
  const std::string_view view_b(text_b, 8);
  FUZZ_REQUIRE(Fixed64Codec::Less({a, 0}, {b, 0}) == (view_a < view_b), view_a);
  FUZZ_REQUIRE(Sign(Fixed64Codec::Compare(a, b)) == Sign(view_a.compare(view_b)), view_a);
  const Fixed64Codec::Key key = Fixed64Codec::MakeKey(view_a);
  FUZZ_REQUIRE(key.word == a && key.hash == SlotHash(view_a), view_a);
  uint64_t again = 0;
  FUZZ_REQUIRE(codec.DecodeFence(Fixed64Codec::EncodeFence(a, 0), *world.texts, &again), view_a);
  FUZZ_REQUIRE(again == a, view_a);
  // Two words that may be in a leaf. An offset beside an inline word with matching check bits is
  // skipped.
  const FenceWords fence{a, b};
  if (codec.DecodeFence(fence, *world.texts, &again) && again != 0 && b >> 20 == 0) {
    const FenceWords made = Fixed64Codec::EncodeFence(again, 0);
    FUZZ_REQUIRE(made.word == a && made.meta == b, view_a);
  }
  uint64_t value = 0;
  FUZZ_REQUIRE(ReadChecked(CheckedWord(a & kCheckedMask), &value), view_a);
  FUZZ_REQUIRE(value == (a & kCheckedMask), view_a);
  if (ReadChecked(b, &value)) FUZZ_REQUIRE(CheckedWord(value) == b, view_b);
}

}  // namespace
}  // namespace lodgekv

// The first byte: 0, 1 the codec of byte strings, without and with inline pairs; 2 a slot; 3
// fixed64.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lodgekv;
  World& world = TheWorld();
  (void)world.Texts();
  fuzz::InputReader input(data, size);
  switch (input.Byte() & 3) {
    case 0: CheckBytesCodec(world, world.record_codec, input); break;
    case 1: CheckBytesCodec(world, world.inline_codec, input); break;
    case 2: {
      const uint64_t key = input.Word();
      CheckSlot(world, {key, input.Word()});
      break;
    }
    default: {
      const uint64_t a = input.Word();
      CheckFixed(world, a, input.Word());
    }
  }
  return 0;
}
