#include "bench/engine_bench/op_batch.h"

#include <cstdio>
#include <iterator>

#include "client/workload/random.h"

namespace lodgekv::bench {
namespace {

constexpr size_t kMaxKeyBytes = 96;

// In alphabetical order, so that keys are in the order of their numbers.
constexpr const char* kSections[] = {
    "appliances", "bicycles",  "books", "cameras",  "clothing", "computers", "furniture", "games",
    "garden",     "jewellery", "music", "pharmacy", "shoes",    "sports",    "tools",     "toys",
};

void AppendBigEndian(uint64_t word, std::string* out) {
  const uint64_t big_endian = __builtin_bswap64(word);
  out->append(reinterpret_cast<const char*>(&big_endian), sizeof(big_endian));
}

void AppendUser(uint64_t number, std::string* out) {
  char text[kMaxKeyBytes];
  const int bytes =
      std::snprintf(text, sizeof(text), "user:%016llu", static_cast<unsigned long long>(number));
  out->append(text, static_cast<size_t>(bytes));
}

// 6 bits of the number are the host, 4 the section, and all of it the article.
void AppendUrl(uint64_t number, std::string* out) {
  char text[kMaxKeyBytes];
  const int bytes = std::snprintf(
      text, sizeof(text), "https://shop-%02u.example.com/catalogue/%s/article-%016llx.html",
      static_cast<unsigned>(number >> 58), kSections[(number >> 54) % std::size(kSections)],
      static_cast<unsigned long long>(number));
  out->append(text, static_cast<size_t>(bytes));
}

}  // namespace

void KeyWriter::Fill(std::span<const KeyRef> keys, OpBatch* batch) const {
  batch->numbers.clear();
  batch->key_bytes.clear();
  batch->key_ends.clear();
  batch->numbers.reserve(keys.size());
  for (const KeyRef& key : keys) batch->numbers.push_back(full_.Number(key));
  if (format_ == KeyFormat::kFixed64) return;
  batch->key_ends.reserve(keys.size());
  batch->key_bytes.reserve(keys.size() * TypicalBytes(format_, shape_));
  for (const KeyRef& key : keys) {
    Append(key, &batch->key_bytes);
    batch->key_ends.push_back(static_cast<uint32_t>(batch->key_bytes.size()));
  }
}

void KeyWriter::Append(const KeyRef& key, std::string* out) const {
  const uint64_t number = full_.Number(key);
  if (format_ == KeyFormat::kFixed64) return AppendBigEndian(number, out);
  switch (shape_) {
    case KeyShape::kRandom16:
      AppendBigEndian(number, out);
      return AppendBigEndian(workload::Mix(number), out);
    case KeyShape::kUser: return AppendUser(dense_.Number(key), out);
    case KeyShape::kUrl: return AppendUrl(number, out);
  }
}

size_t KeyWriter::TypicalBytes(KeyFormat format, KeyShape shape) {
  if (format == KeyFormat::kFixed64) return 8;
  switch (shape) {
    case KeyShape::kRandom16: return 16;
    case KeyShape::kUser: return 21;
    case KeyShape::kUrl: return 72;
  }
  return 0;
}

}  // namespace lodgekv::bench
