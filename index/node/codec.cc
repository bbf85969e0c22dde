#include "index/node/codec.h"

#include <array>

namespace lodgekv {

namespace {

constexpr uint64_t kSmallTag = uint64_t{0b111} << 61;
constexpr uint64_t kSmallValueBits = 48;
constexpr uint64_t kSmallValueMask = (uint64_t{1} << kSmallValueBits) - 1;
constexpr size_t kSmallKeyLimit = 8;
constexpr size_t kSmallValueLimit = 6;

// CRC-6 with the polynomial x^6 + x + 1, left-aligned in a byte: detects one or two flipped bits
// among the 61 bits it covers, itself included.
constexpr std::array<uint8_t, 256> MakeCrc6Table() {
  std::array<uint8_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc << 1 ^ ((crc & 0x80) != 0 ? 0x0c : 0);
    table[byte] = static_cast<uint8_t>(crc);
  }
  return table;
}
constexpr std::array<uint8_t, 256> kCrc6Table = MakeCrc6Table();

// Over the two lengths and the value.
uint64_t CheckBits(uint64_t small_word) {
  uint8_t crc = kCrc6Table[small_word >> 54 & 0x7f];
  for (int shift = kSmallValueBits - 8; shift >= 0; shift -= 8) {
    crc = kCrc6Table[crc ^ (small_word >> shift & 0xff)];
  }
  return crc >> 2;
}

}  // namespace

bool BytesCodec::InlineWord(std::string_view key, std::string_view value, uint64_t* word) const {
  if (!inline_pairs_) return false;
  if (key.size() == 8 && value.size() == 8 && static_cast<uint8_t>(value[0]) < 0xC0) {
    *word = KeyWord(value, 0);
    return true;
  }
  if (key.size() > kSmallKeyLimit || value.size() > kSmallValueLimit) return false;
  const uint64_t bits = KeyWord(value, 0) >> (64 - kSmallValueBits);
  *word = kSmallTag | uint64_t{key.size()} << 57 | uint64_t{value.size()} << 54 | bits;
  *word |= CheckBits(*word) << kSmallValueBits;
  return true;
}

bool BytesCodec::InlineIsSound(Pair pair) {
  if (!IsSmall(pair.value)) return true;
  const uint64_t key_bytes = InlineKeyLength(pair.value);
  const uint64_t value_bytes = pair.value >> 54 & 0x7;
  if (key_bytes > kSmallKeyLimit || value_bytes > kSmallValueLimit) return false;
  const uint64_t bits = pair.value & kSmallValueMask;
  if ((pair.value >> kSmallValueBits & 0x3f) != CheckBits(pair.value)) return false;
  // The bytes after the ends of key and value are zero.
  const bool key_ends = key_bytes == 8 || pair.key << (8 * key_bytes) == 0;
  return key_ends && (bits << (8 * value_bytes) & kSmallValueMask) == 0;
}

std::string_view BytesCodec::InlineValue(uint64_t value_word, char (&scratch)[8]) {
  if (!IsSmall(value_word)) {
    StoreBigEndian(value_word, scratch);
    return {scratch, 8};
  }
  StoreBigEndian((value_word & kSmallValueMask) << (64 - kSmallValueBits), scratch);
  return {scratch, value_word >> 54 & 0x7};
}

// Hash and first bytes match, but the key does not: nearly always another key with equal ones.
[[gnu::noinline]] bool BytesCodec::IsDamaged(Pair pair) const {
  const pmem::Offset record = RecordOf(pair.value);
  return !RecordIsSound(pool_, record, ViewRecord(pool_, record));
}

bool BytesCodec::KeyFits(Pair pair) const {
  if (!IsRecord(pair.value)) return true;
  const std::string_view key = KeyOfRecord(pool_, RecordOf(pair.value));
  return KeyWord(key, 0) == pair.key && SlotHash(key) == HashOf(pair);
}

uint16_t BytesCodec::HashOf(Pair pair) const {
  if (IsRecord(pair.value)) return HashInRecordWord(pair.value);
  char scratch[8];
  return SlotHash(KeyText(pair, scratch));
}

// Their first words are the same.
bool BytesCodec::HaveSameText(Pair a, Pair b) const {
  if (a.value == b.value) return true;
  char scratch_a[8];
  char scratch_b[8];
  if (KeyText(a, scratch_a) == KeyText(b, scratch_b)) return true;
  // As in Matches: a damaged key may be the other one.
  return (IsRecord(a.value) && IsDamaged(a)) || (IsRecord(b.value) && IsDamaged(b));
}

bool BytesCodec::Less(Pair a, Pair b) const {
  if (a.key != b.key) return a.key < b.key;
  char scratch_a[8];
  char scratch_b[8];
  return KeyText(a, scratch_a) < KeyText(b, scratch_b);
}

BytesCodec::Separator BytesCodec::Between(Pair left, Pair right, SeparatorTexts& texts) const {
  char scratch_left[8];
  char scratch_right[8];
  if (left.key != right.key) {
    // The words decide: no record is read, which may be uncached, or damaged.
    StoreBigEndian(left.key, scratch_left);
    StoreBigEndian(right.key, scratch_right);
    return texts.New(ShortestSeparator({scratch_left, 8}, {scratch_right, 8}));
  }
  return texts.New(ShortestSeparator(KeyText(left, scratch_left), KeyText(right, scratch_right)));
}

FenceWords BytesCodec::EncodeFence(Separator separator, pmem::Offset record) {
  const std::string_view text = separator->view();
  if (text.empty()) return {};
  if (text.size() <= 8) return FenceWords::Inline(KeyWord(text, 0), text.size());
  return FenceWords::Record(KeyWord(text, 0), record);
}

bool BytesCodec::DecodeFence(const FenceWords& fence, SeparatorTexts& texts, Separator* out) const {
  if (!fence.IsSound()) return false;
  switch (fence.kind()) {
    case FenceWords::kMinusInfinity:
      *out = MinusInfinity();
      return fence.word == 0 && fence.meta == 0;
    case FenceWords::kInline: {
      if (fence.inline_length() == 0 || fence.inline_length() > 8) return false;
      char text[8];
      StoreBigEndian(fence.word, text);
      *out = texts.New({text, fence.inline_length()});
      return true;
    }
    case FenceWords::kRecord: {
      RecordView record;
      if (!VerifyRecord(pool_, *slab_, fence.record(), &record)) return false;
      *out = texts.New(record.key);
      return true;
    }
  }
  return false;
}

}  // namespace lodgekv
