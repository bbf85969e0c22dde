// Operations prepared before timing: one thread's share of a chunk, with keys in the format of the
// target under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/engine_bench/key_numbers.h"
#include "bench/engine_bench/workload.h"
#include "index/engine.h"

namespace lodgekv::bench {

struct OpBatch {
  Workload workload = Workload::kRead;
  uint8_t generation = 0;  // of the written values: updates differ from the old value
  uint32_t value_bytes = 8;
  Grouping group;
  std::vector<uint64_t> numbers;
  // `bytes` only: the concatenated keys, and the end of each.
  std::string key_bytes;
  std::vector<uint32_t> key_ends;

  size_t size() const { return numbers.size(); }
};

// Writes keys of one format and shape.
class KeyWriter {
 public:
  // `capacity`: greater than the index of any KeyRef.
  KeyWriter(KeyFormat format, KeyShape shape, uint64_t seed, uint64_t capacity)
      : format_(format),
        shape_(shape),
        full_(KeyNumbers::Full(seed)),
        dense_(KeyNumbers::Dense(seed, capacity)) {}

  // Fills numbers and, for `bytes`, the keys.
  void Fill(std::span<const KeyRef> keys, OpBatch* batch) const;
  // Appends one key as bytes.
  void Append(const KeyRef& key, std::string* out) const;

  // The sort order of the keys.
  uint64_t OrderOf(const KeyRef& key) const {
    const bool dense = format_ == KeyFormat::kBytes && shape_ == KeyShape::kUser;
    return (dense ? dense_ : full_).Number(key);
  }

  static size_t TypicalBytes(KeyFormat format, KeyShape shape);

 private:
  const KeyFormat format_;
  const KeyShape shape_;
  const KeyNumbers full_;
  const KeyNumbers dense_;
};

// Room for a key that is made when it is asked for.
struct KeyRoom {
  char bytes[8];
};

// The keys of a batch as string views, each valid as long as the room that was given for it. `link`
// is 0: a key that depends on it is not known before it is (see LinkOf).
class Fixed64Keys {
 public:
  explicit Fixed64Keys(const OpBatch& batch) : numbers_(batch.numbers.data()) {}
  std::string_view Key(size_t i, KeyRoom* room, uint64_t link = 0) const {
    const uint64_t big_endian = __builtin_bswap64(numbers_[i] ^ link);
    std::memcpy(room->bytes, &big_endian, sizeof(room->bytes));
    return {room->bytes, sizeof(room->bytes)};
  }

 private:
  const uint64_t* numbers_;
};

class BytesKeys {
 public:
  explicit BytesKeys(const OpBatch& batch)
      : data_(batch.key_bytes.data()), ends_(batch.key_ends.data()) {}
  std::string_view Key(size_t i) const { return Key(i, nullptr); }
  std::string_view Key(size_t i, KeyRoom*, uint64_t link = 0) const {
    const uint32_t begin = i == 0 ? 0 : ends_[i - 1];
    return {data_ + begin + link, ends_[i] - begin};
  }

 private:
  const char* data_;
  const uint32_t* ends_;
};

// Values identify their key: the first word is the key's number with the generation in its low
// bits.
inline constexpr uint64_t kGenerationMask = 7;
constexpr uint64_t ValueWord(uint64_t number, uint8_t generation) {
  return (number & ~kGenerationMask) | (generation & kGenerationMask);
}
// What a value has that is not its key's: 0 where it is right.
constexpr uint64_t ValueError(uint64_t number, uint64_t value_word) {
  return (number ^ value_word) & ~kGenerationMask;
}
constexpr bool IsValueOf(uint64_t number, uint64_t value_word) {
  return ValueError(number, value_word) == 0;
}

// Links a read to the one before: 0, but neither the compiler nor the processor knows so before the
// value is there. `error` is that value's.
inline uint64_t LinkOf(uint64_t error) {
  uint64_t tested = error;
  asm("" : "+r"(tested));
  return tested == 0 ? error : 0;  // of a wrong value no key is made
}

}  // namespace lodgekv::bench
