#include "tests/support/key_sets.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>

#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

// Short strings of the bytes that sort first, in the middle and last: each is a prefix of others.
std::string Prefixes(uint64_t number) {
  static constexpr char kAlphabet[] = {'\0', '\1', 'a', '\x7F', '\x80', '\xFF'};
  std::string key;
  for (uint64_t rest = number + 1; rest > 0; rest /= std::size(kAlphabet) + 1) {
    const uint64_t digit = rest % (std::size(kAlphabet) + 1);
    if (digit > 0) key.push_back(kAlphabet[digit - 1]);
  }
  return key.empty() ? std::string(1, '\0') : key;
}

std::string Urls(uint64_t number) {
  const uint64_t bits = MixBits(number);
  std::string key = "https://www.example.org/";
  if (bits % 4 != 0) key += "catalogue/spare-parts/by-manufacturer/";
  if (bits % 8 == 7) key.append(200, '/');
  key += "item?id=" + std::to_string(number);
  if (bits % 16 == 3) key += "&lang=de";
  return key;
}

std::string UserIds(uint64_t number) {
  std::array<char, 32> text;
  const int size = std::snprintf(text.data(), text.size(), "user:%010llu",
                                 static_cast<unsigned long long>(number));
  return {text.data(), static_cast<size_t>(size)};
}

std::string SameEightBytes(uint64_t number) {
  return "samepref" + BigEndian(number).substr(8 - number % 9);
}

std::string AnyBytes(uint64_t number) {
  const size_t size = 1 + MixBits(number) % 40;
  std::string key;
  for (size_t i = 0; i < size; ++i) key.push_back(static_cast<char>(MixBits(number * 64 + i)));
  return key;
}

// Mostly ordinary, occasionally of the largest sizes.
std::string LongOnes(uint64_t number) {
  if (number % 64 != 0) return UserIds(number);
  std::string key(number % 128 == 0 ? 65'535 : 4'000 + number % 5'000, 'k');
  key.replace(key.size() - 8, 8, BigEndian(number));
  return key;
}

std::string Dense(uint64_t number) { return BigEndian(number); }
std::string Scattered(uint64_t number) { return BigEndian(MixBits(number)); }

std::string LittleEndian(uint64_t number) {
  std::string key = BigEndian(number);
  std::reverse(key.begin(), key.end());
  return key;
}

// The extremes: all zeros, all ones, and their neighbours.
std::string Extremes(uint64_t number) {
  const uint64_t near = number / 4 % 64;
  switch (number % 4) {
    case 0: return BigEndian(near);
    case 1: return BigEndian(~near);
    case 2: return BigEndian((uint64_t{1} << 63) - 32 + near);
    default: return BigEndian(number);
  }
}

constexpr KeyFamily kBytesFamilies[] = {
    {"prefixes", Prefixes}, {"urls", Urls},     {"user_ids", UserIds},   {"same_8", SameEightBytes},
    {"any", AnyBytes},      {"dense_8", Dense}, {"long_ones", LongOnes},
};

constexpr KeyFamily kFixedFamilies[] = {
    {"dense", Dense},
    {"scattered", Scattered},
    {"little_endian", LittleEndian},
    {"extremes", Extremes},
};

}  // namespace

std::string BigEndian(uint64_t number) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (56 - 8 * i));
  return bytes;
}

uint64_t FromBigEndian(std::string_view bytes) {
  if (bytes.size() < 8) throw std::invalid_argument("fewer than 8 bytes");
  uint64_t number = 0;
  for (size_t i = 0; i < 8; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

std::string OrderedKey(KeyFormat format, uint64_t number) {
  if (format == KeyFormat::kFixed64) return BigEndian(number);
  std::array<char, 32> text;
  const int size = std::snprintf(text.data(), text.size(), "account/%09llu",
                                 static_cast<unsigned long long>(number));
  return {text.data(), static_cast<size_t>(size)};
}

// Odd multiplier: a bijection of the 64-bit words, so that values use every bit and tell their id.
constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;
constexpr uint64_t kGather = 0xF1DE83E19937733D;
static_assert(kSpread * kGather == 1);

std::string ValueOf(KeyFormat format, uint64_t id, size_t bytes) {
  std::string value = BigEndian(id * kSpread);
  if (format == KeyFormat::kFixed64) return value;
  while (value.size() < bytes) {
    value +=
        BigEndian(MixBits(id + value.size())).substr(0, std::min<size_t>(8, bytes - value.size()));
  }
  return value;
}

uint64_t IdOf(std::string_view value) { return FromBigEndian(value) * kGather; }

std::span<const KeyFamily> KeyFamilies(KeyFormat format) {
  if (format == KeyFormat::kFixed64) return kFixedFamilies;
  return kBytesFamilies;
}

}  // namespace lodgekv::test
