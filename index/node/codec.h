// The two key formats, one tree code: everything in a tree that depends on how a pair is stored in
// its 16-byte slot {key word, value word} is a function of a codec.
//
// Fixed64Codec: key and value of 8 bytes, as in the papers. The words are their big-endian values.
// BytesCodec: the key word is the first 8 bytes of the key, zero padded; the value word has three
// forms, told apart by its first bits:
//   00, 01, 10 | ...                           raw: 8-byte key, 8-byte value, first byte < 0xC0
//   110 | offset/16:44 | slot hash:16 | parity:1
//       a record (node/record.h); the parity makes the set bits of both words together even
//   111 | key length:4 | value length:3 | check:6 | value:48     small: key 0..8, value 0..6 bytes
// The raw and small forms are written only in pools created with `inline_pairs`.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "index/engine.h"
#include "index/node/key_word.h"
#include "index/node/prefetch.h"
#include "index/node/record.h"
#include "index/node/separator.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"

namespace lodgekv {

// A pair as stored in a slot, a buffer or a log.
struct Pair {
  uint64_t key;    // key word
  uint64_t value;  // value word
};

class Fixed64Codec {
 public:
  static constexpr KeyFormat kFormat = KeyFormat::kFixed64;
  static constexpr bool kRecords = false;  // pairs may refer to records; words may be equal
  using Separator = uint64_t;

  struct Key {
    uint64_t word;
    uint16_t hash;
  };

  Fixed64Codec(pmem::Pool&, pmem::RecordSlab*, bool) {}

  static Key MakeKey(std::string_view text) { return KeyOfWord(KeyWord(text, 0)); }
  static Key KeyOfWord(uint64_t word) { return {word, HashOf({word, 0})}; }
  static Key KeyOf(Separator separator) { return KeyOfWord(separator); }
  // The text of which MakeKey makes the separator's key, valid for longer than the separator.
  static std::string TextOf(Separator separator) {
    std::string text(sizeof(separator), '\0');
    StoreBigEndian(separator, text.data());
    return text;
  }
  static std::string TextOf(const Key& key) { return TextOf(key.word); }

  static uint16_t HashOf(Pair pair) { return SlotHashOfWord(pair.key); }

  // No pair refers to a record. Exists for code compiled for both codecs that runs for one: clang
  // before 16 instantiates members whose `requires` does not hold.
  static bool IsRecord(uint64_t) { return false; }
  static pmem::Offset RecordOf(uint64_t) { return 0; }
  static void PrefetchKey(Pair) {}
  static void PrefetchKeyIn(pmem::Offset) {}

  // Whether `pair` may have this key, without reading a record.
  static bool MayMatch(const Key& key, Pair pair) { return pair.key == key.word; }
  // Whether it has the key. `pair` may match.
  static bool Matches(const Key&, Pair) { return true; }
  static bool SameKey(Pair a, Pair b) { return a.key == b.key; }
  static bool Less(Pair a, Pair b) { return a.key < b.key; }

  static Separator MinusInfinity() { return 0; }
  static Separator Between(Pair, Pair right, SeparatorTexts&) { return right.key; }
  // A separator is completely in its word: nothing is owned.
  static void Keep(Separator) {}
  static void Release(SeparatorTexts&, Separator) {}
  static void Discard(SeparatorTexts&, Separator) {}
  static int Compare(Separator a, Separator b) { return a < b ? -1 : a > b ? 1 : 0; }
  static int CompareToKey(Separator separator, const Key& key) {
    return Compare(separator, key.word);
  }
  static bool KeyInRange(Pair pair, Separator low, bool bounded, Separator high) {
    return pair.key >= low && (!bounded || pair.key < high);
  }
  static uint64_t WordOf(Separator separator, uint32_t) { return separator; }
  static uint64_t WordOf(const Key& key, uint32_t) { return key.word; }
  static uint64_t WordOf(Pair pair, uint32_t) { return pair.key; }

  static FenceWords EncodeFence(Separator separator, pmem::Offset) {
    return FenceWords::Inline(separator, 8);
  }
  // No separator needs a record.
  static std::string_view FenceText(Separator) { return {}; }
  // False: not an encoding of this codec.
  bool DecodeFence(const FenceWords& fence, SeparatorTexts&, Separator* out) const {
    *out = fence.word;
    if (!fence.IsSound()) return false;
    return fence.kind() == FenceWords::kMinusInfinity
               ? fence.word == 0 && fence.meta == 0
               : fence.kind() == FenceWords::kInline && fence.inline_length() == 8;
  }
};

class BytesCodec {
 public:
  static constexpr KeyFormat kFormat = KeyFormat::kBytes;
  static constexpr bool kRecords = true;
  using Separator = const SeparatorText*;

  struct Key {
    std::string_view text;
    uint64_t word;
    uint16_t hash;
  };

  BytesCodec(pmem::Pool& pool, pmem::RecordSlab* slab, bool inline_pairs)
      : pool_(pool), slab_(slab), inline_pairs_(inline_pairs) {}

  static Key MakeKey(std::string_view text) { return {text, KeyWord(text, 0), SlotHash(text)}; }
  static Key KeyOf(Separator separator) { return MakeKey(separator->view()); }
  static std::string TextOf(Separator separator) { return std::string(separator->view()); }
  static std::string TextOf(const Key& key) { return std::string(key.text); }

  static bool IsRecord(uint64_t value_word) { return value_word >> 61 == 0b110; }
  static bool IsSmall(uint64_t value_word) { return value_word >> 61 == 0b111; }
  static pmem::Offset RecordOf(uint64_t value_word) {
    return (value_word >> 17 & ((uint64_t{1} << 44) - 1)) * 16;
  }
  static uint64_t RecordWord(uint64_t key_word, pmem::Offset offset, uint16_t hash) {
    const uint64_t word = uint64_t{0b110} << 61 | (offset / 16) << 17 | uint64_t{hash} << 1;
    return word | (std::popcount(key_word ^ word) & 1);
  }
  static uint16_t HashInRecordWord(uint64_t value_word) {
    return static_cast<uint16_t>(value_word >> 1);
  }
  // The inline form of a pair, if it has one and the pool allows it.
  bool InlineWord(std::string_view key, std::string_view value, uint64_t* word) const;
  bool inline_pairs() const { return inline_pairs_; }

  uint16_t HashOf(Pair pair) const;

  bool MayMatch(const Key& key, Pair pair) const {
    if (pair.key != key.word) return false;
    if (IsRecord(pair.value)) return HashInRecordWord(pair.value) == key.hash;
    return InlineKeyLength(pair.value) == key.text.size();
  }
  // A pair with a damaged record matches any key that it may have: so the key does not seem absent,
  // a read or a delete reports the damage, and a put replaces the pair.
  bool Matches(const Key& key, Pair pair) const {
    if (!IsRecord(pair.value)) return true;
    return SameText(KeyOfRecord(pool_, RecordOf(pair.value)), key.text) || IsDamaged(pair);
  }
  bool SameKey(Pair a, Pair b) const {
    if (a.key != b.key) return false;
    const bool records = IsRecord(a.value) && IsRecord(b.value);
    if (records && HashInRecordWord(a.value) != HashInRecordWord(b.value)) return false;
    return HaveSameText(a, b);
  }
  bool Less(Pair a, Pair b) const;

  // Fetches what a comparison with the pair's key reads. `pair` may be torn.
  void PrefetchKey(Pair pair) const {
    if (IsRecord(pair.value)) PrefetchKeyIn(RecordOf(pair.value));
  }
  void PrefetchKeyIn(pmem::Offset record) const {
    const char* at = pool_.At<char>(record);
    Prefetch(at);
    Prefetch(at + pmem::kLineBytes - 1);
  }

  // The key of a pair; an inline key is copied to `scratch`.
  std::string_view KeyText(Pair pair, char (&scratch)[8]) const {
    if (IsRecord(pair.value)) return KeyOfRecord(pool_, RecordOf(pair.value));
    StoreBigEndian(pair.key, scratch);
    return {scratch, InlineKeyLength(pair.value)};
  }
  // False: the record of a sound pair has another key, so it is damaged.
  bool KeyFits(Pair pair) const;
  // False: an inline pair that this codec never writes.
  bool PairIsSound(Pair pair) const {
    return IsRecord(pair.value) ? (std::popcount(pair.key ^ pair.value) & 1) == 0
                                : inline_pairs_ && InlineIsSound(pair);
  }
  static bool InlineIsSound(Pair pair);
  // The value of an inline pair, copied to `scratch`.
  static std::string_view InlineValue(uint64_t value_word, char (&scratch)[8]);

  static Separator MinusInfinity() { return SeparatorText::Empty(); }
  // The caller owns it.
  Separator Between(Pair left, Pair right, SeparatorTexts& texts) const;
  static void Keep(Separator separator) { SeparatorTexts::Keep(separator); }
  static void Release(SeparatorTexts& texts, Separator separator) { texts.Release(separator); }
  static void Discard(SeparatorTexts& texts, Separator separator) { texts.Discard(separator); }
  static int Compare(Separator a, Separator b) { return a->view().compare(b->view()); }
  static int CompareToKey(Separator separator, const Key& key) {
    return separator->view().compare(key.text);
  }
  bool KeyInRange(Pair pair, Separator low, bool bounded, Separator high) const {
    char scratch[8];
    const std::string_view text = KeyText(pair, scratch);
    return text >= low->view() && (!bounded || text < high->view());
  }
  static uint64_t WordOf(Separator separator, uint32_t prefix) {
    return KeyWord(separator->view(), prefix);
  }
  static uint64_t WordOf(const Key& key, uint32_t prefix) {
    return prefix == 0 ? key.word : KeyWord(key.text, prefix);
  }
  uint64_t WordOf(Pair pair, uint32_t prefix) const {
    if (prefix == 0) return pair.key;
    char scratch[8];
    return KeyWord(KeyText(pair, scratch), prefix);
  }

  // If FenceText(separator) is not empty, `record` holds it as its key.
  static FenceWords EncodeFence(Separator separator, pmem::Offset record);
  // The part that does not fit into a fence's word.
  static std::string_view FenceText(Separator separator) {
    return separator->length > 8 ? separator->view() : std::string_view();
  }
  // The caller owns it.
  bool DecodeFence(const FenceWords& fence, SeparatorTexts& texts, Separator* out) const;

 private:
  bool IsDamaged(Pair pair) const;
  bool HaveSameText(Pair a, Pair b) const;
  static uint64_t InlineKeyLength(uint64_t value_word) {
    return IsSmall(value_word) ? value_word >> 57 & 0xf : 8;
  }

  pmem::Pool& pool_;
  pmem::RecordSlab* slab_;
  const bool inline_pairs_;
};

}  // namespace lodgekv
